"""`holdfast confidence` shows what is kept fresh, says how old it is, and infers anew on demand."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert, update
from tests.support.command_line import Workplace
from tests.support.fits import fitted
from tests.support.owner_env import PASSPHRASE, QUICK
from tests.support.simulated_operation import Operation, operation

from holdfast.control.inference.confidence import Confidences
from holdfast.control.inference.fits import save_fit
from holdfast.control.inference.refresh_lease import RefreshLease
from holdfast.control.settings.models import read_control
from holdfast.durations import DAY, HOUR
from holdfast.owner import Home
from holdfast.storage.database import transaction
from holdfast.storage.inference_schema import confidences, fleet_confidence
from holdfast.storage.schema import holdings

COUNT = 3
MANY = 1000
MAX_SECONDS = 2.0


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operation]:
    """Yield the operation of a home in which audits have taught something."""
    folder = Home.create(tmp_path / "home", PASSPHRASE, QUICK).folder
    (folder / "holdfast.toml").write_text('[control]\nscenario = "paper"\n')
    monkeypatch.setenv("HOLDFAST_HOME", str(folder))
    settings = read_control(folder)
    made = operation(folder, settings.scenario, COUNT, address=settings.address(folder))
    made.until(made.clock.now + 15 * DAY)
    save_fit(made.engine, fitted(0.1), made.clock.now)
    with transaction(made.engine) as connection:  # all damage is repaired
        connection.execute(update(holdings).values(outcome="passed"))
    monkeypatch.setattr("holdfast.cli.control.milliseconds", made.clock)
    yield made
    made.engine.dispose()


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Workplace:
    return Workplace(tmp_path, capsys)


@pytest.mark.slow
def test_it_shows_what_is_kept_and_as_of_when(running: Operation, shell: Workplace) -> None:
    first = shell.run("confidence", "--json").data
    assert (first["at"], first["stale"]) == (running.clock.now, False), "inferred for the first"
    running.clock.now += 3 * HOUR
    assert shell.run("confidence", "--json").data == first, "what is kept is not inferred again"
    assert "3 h ago" in shell.run("confidence").stdout.splitlines()[0]
    status = shell.run("status", "--json").data
    assert status["confidence"]["fleet_at_most"] == first["fleet_at_most"]
    assert "confidence: at most" in shell.run("status").stdout


@pytest.mark.slow
def test_holdings_that_are_damaged_have_no_bound(running: Operation, shell: Workplace) -> None:
    shell.run("confidence")
    with transaction(running.engine) as connection:
        failed = {"name": "attic", "outcome": "failed"}
        connection.execute(update(holdings).where(holdings.c.id == 1).values(failed))
    shown = shell.run("confidence", "--json")
    assert (shown.code, shown.data["fleet_at_most"]) == (1, None)
    (known,) = shown.data["known_damage"]
    assert known["holding"] == "attic"
    assert "attic" not in {row["holding"] for row in shown.data["holdings"]}
    assert shell.run("confidence").stdout.startswith("attic is damaged")


@pytest.mark.slow
def test_figures_that_are_old_are_said_to_be_and_how_to_refresh_them(
    running: Operation, shell: Workplace
) -> None:
    shell.run("confidence")
    running.clock.now += 2 * DAY
    shown = shell.run("confidence").stdout
    assert "-> these figures are old" in shown
    assert "`holdfast confidence --fresh` refreshes them now" in shown
    anew = shell.run("confidence", "--fresh", "--json").data
    assert (anew["at"], anew["stale"]) == (running.clock.now, False)
    assert "these figures are old" not in shell.run("confidence").stdout


@pytest.mark.slow
def test_a_new_holding_is_named_as_not_inferred_yet(running: Operation, shell: Workplace) -> None:
    shell.run("confidence")
    with transaction(running.engine) as connection:
        connection.execute(update(holdings).where(holdings.c.id == 1).values(name="attic"))
        connection.execute(confidences.delete().where(confidences.c.holding == 1))
    assert "1 new holding is not among them yet" in shell.run("confidence").stdout
    assert (
        "nothing is inferred of holding 'attic' yet" in shell.run("confidence", "attic").sentence()
    )


@pytest.mark.slow
def test_while_another_process_refreshes_it_waits_and_then_gives_up(
    running: Operation, shell: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.confidence.WAIT_SECONDS", 0.6)
    with RefreshLease(running.engine).hold(running.clock.now):
        refused = shell.run("confidence", "--fresh")
        assert "another process is refreshing the figures" in refused.sentence()
    assert shell.run("confidence", "--fresh").code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("running")
def test_progress_is_told_in_lines_where_there_is_no_terminal(
    shell: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.confidence.LINE_SECONDS", 0.0)
    told = shell.run("confidence", "--fresh").stderr
    assert f"inferred the damage of {COUNT} of {COUNT} holdings" in told


@pytest.mark.slow
def test_a_thousand_holdings_are_shown_within_two_seconds(running: Operation) -> None:
    Confidences(running.engine, read_control(Path(os.environ["HOLDFAST_HOME"]))).refresh(
        running.clock.now
    )
    with transaction(running.engine) as connection:
        (model,) = connection.execute(holdings.select().where(holdings.c.id == 1)).mappings()
        copies = [
            dict(model) | {"id": number, "name": f"holding-{number}", "blocks": 1000 + number}
            for number in range(COUNT + 1, MANY + 1)
        ]
        connection.execute(insert(holdings), copies)
        rows = [
            {"holding": row["id"], "at": 1, "number": 1, "at_most": 0.1, "damaged": 0.2}
            for row in copies
        ]
        connection.execute(insert(confidences), rows)
        connection.execute(update(fleet_confidence).values(at=1))
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", "from holdfast.cli import main; main()", "confidence"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    after = os.times()
    seconds = after.children_user + after.children_system
    seconds -= before.children_user + before.children_system
    assert f"and {MANY - 50} more holdings" in done.stdout
    assert re.search(r"all holdings together: at most [0-9.]+% damaged", done.stdout)
    assert seconds < 2 * MAX_SECONDS, "of processor time, which a busy machine doubles"
