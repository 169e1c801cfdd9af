"""What is due within a day: one number, on the dashboard, in the API and by the command."""

import re
from pathlib import Path

import httpx
import pytest
from sqlalchemy import update
from tests.support.command_line import PASSPHRASE, QUICK, Workplace
from tests.support.live_web import serving

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.durations import DAY, HOUR
from holdfast.owner import Home
from holdfast.storage.database import transaction
from holdfast.storage.schema import NEVER, holdings

# When each is due, in milliseconds from now: late, now, within a day, at its end, later, never.
DUE = {1: -HOUR, 2: 0, 3: HOUR, 4: DAY, 5: DAY + 1, 6: NEVER}
WITHIN_A_DAY = 4


@pytest.mark.slow
def test_dashboard_api_and_command_count_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: of these six, the dashboard and `fleet` counted 2, `activity` and `status` 4."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HOLDFAST_HOME", str(folder))
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE)
    command = Workplace(tmp_path, capsys)
    Home.create(folder, PASSPHRASE.encode(), QUICK)
    (folder / "holdfast.toml").write_text('[control]\nscenario = "paper"\n')
    with serving(folder, str(folder / "holdfast.db"), count=len(DUE), days=1) as served:
        now = served.clock.now
        monkeypatch.setattr("holdfast.cli.control.milliseconds", served.clock)
        with transaction(served.engine) as connection:
            for id_, due in DUE.items():
                moment = {"due": min(now + due, NEVER), "quarantined": due == NEVER, "lease": 0}
                connection.execute(update(holdings).where(holdings.c.id == id_), moment)
        page = httpx.get(served.url).text
        (shown,) = re.findall(r"<dt>Due within a day</dt><dd>([\d,]+)</dd>", page)
        fleet = served.client.get("/fleet").json()["due_today"]
        activity = served.client.get("/activity").json()["due"]
        by_command = command.run("status", "--json").data["activity"]["due"]
        said = command.run("status").stdout
    assert [int(shown), fleet, activity, by_command] == [WITHIN_A_DAY] * 4
    assert re.search(rf"^next day +{WITHIN_A_DAY} audits are due$", said, re.MULTILINE)
