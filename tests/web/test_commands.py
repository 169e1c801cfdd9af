"""Commands work on the database of a home while its server runs, as the server does."""

import getpass
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text, update
from tests.support import parts
from tests.support.command_line import PASSPHRASE, QUICK, Workplace
from tests.support.fits import fitted
from tests.support.live_web import Served, serving
from tests.web.changes import row, told

from holdfast import owner
from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.inference.fits import save_fit
from holdfast.control.policies.aliases import Author, challenge, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import Conditions, read_control
from holdfast.durations import DAY
from holdfast.evidence import leaf
from holdfast.model.scenario import PAPER
from holdfast.storage.database import transaction
from holdfast.storage.schema import NEVER, holdings

EASY = Conditions(
    ceiling=0.9, episodes=64, decisions=2, shadow=DAY, gas_margin=1e3, rails_margin=1.0
)
SETTINGS = """[home]
database = "{database}"
[control]
scenario = "paper"
[control.promotion]
ceiling = 0.9
episodes = 64
decisions = 2
shadow = "1 day"
gas_margin = 1000
rails_margin = 1.0
"""
HOLD_SECONDS = 0.5
TIMEOUT_SECONDS = 30
Home = tuple[Workplace, Served]


@pytest.fixture(params=["sqlite", "postgres"])
def home(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Home]:
    """Yield a shell in which commands are about a home that is served, with a challenger."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HOLDFAST_HOME", str(folder))
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE)
    shell = Workplace(tmp_path, capsys)
    owner.Home.create(folder, PASSPHRASE.encode(), QUICK)
    if request.param == "sqlite":
        yield from served_home(shell, folder, str(folder / "holdfast.db"), monkeypatch)
        return
    with parts.database(request.getfixturevalue("postgres"), "commands") as address:
        yield from served_home(shell, folder, address, monkeypatch)


def served_home(
    shell: Workplace, folder: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Home]:
    (folder / "holdfast.toml").write_text(SETTINGS.format(database=database))
    with serving(folder, read_control(folder).address(folder), EASY, count=2, days=1) as running:
        monkeypatch.setattr("holdfast.cli.control.milliseconds", running.clock)
        author = Author("a test", running.clock.now)
        version = Registry(running.engine).register("fixed-high", PAPER, author.at).version
        with transaction(running.engine) as connection:
            known = read_aliases(connection)
        challenge(running.engine, known, version, author)
        running.operation.until(running.clock.now + 40 * DAY)
        save_fit(running.engine, fitted(0.1), running.clock.now)
        yield shell, running


@pytest.mark.slow
def test_commands_show_what_the_api_shows(home: Home) -> None:
    shell, served = home
    shown = shell.run("status", "--json").data
    assert shown.pop("activity") == served.client.get("/activity?limit=5").json()
    assert shown.pop("service_running") is False
    (note,) = shown.pop("notes")
    assert note.startswith("no service is running")
    assert shown == served.client.get("/status").json()
    for command, path in (
        (("list",), "/policies"),
        (("show", "champion"), "/policies/champion"),
        (("shadow",), "/policies/challenger/shadow"),
    ):
        answer = served.client.get(path).json()
        answer.pop("aliases" if command == ("list",) else "", None)
        assert shell.run("policy", *command, "--json").data == answer, command
    changes = shell.run("policy", "history", "--json").data["changes"]
    assert changes == served.client.get("/policies/history").json()
    inferred = shell.run("confidence", "--json").data
    assert inferred["holdings"] or inferred["known_damage"]


@pytest.mark.slow
def test_a_version_that_does_well_is_promoted_and_the_operator_recorded(home: Home) -> None:
    shell, served = home
    verdict = shell.run("policy", "promote", "--dry-run", "--json")
    other = shell.run("policy", "promote", "--dry-run", "--json")
    assert verdict.data["figures"]["seed"] != other.data["figures"]["seed"]
    seed = str(verdict.data["figures"]["seed"])
    assert shell.run("policy", "promote", "--dry-run", "--json", "--seed", seed) == verdict
    done = shell.run("policy", "promote", "--json")
    assert [check for check in done.data["checks"] if not check["passed"]] == []
    assert (done.data["passed"], done.data["promoted"], done.data["forced"]) == (True, True, False)
    change = told(served)[-1]
    assert isinstance(change, leaf.PolicyChange)
    assert (change.change, change.by, change.forced) == (
        leaf.Change.PROMOTED,
        getpass.getuser(),
        False,
    )
    assert [check.name for check in change.checks] == [
        check["name"] for check in done.data["checks"]
    ]
    assert served.client.get("/policies").json()["aliases"]["champion"]["name"] == "fixed-high"


@pytest.mark.slow
def test_every_change_is_in_the_evidence_with_the_operator_and_the_reason(home: Home) -> None:
    shell, served = home
    with transaction(served.engine) as connection:
        apart = {"quarantined": True, "due": NEVER}
        connection.execute(update(holdings).where(holdings.c.id == 2).values(apart))
    challenger = shell.run("policy", "show", "challenger", "--json").data["version"]
    for order in (
        ("audit", "ask", "holding-000000"),
        ("audit", "release", "holding-000001"),
        ("policy", "withdraw"),
        ("policy", "challenge", challenger),
        ("policy", "promote", "--force"),
        ("policy", "rollback"),
    ):
        assert shell.run(*order, "--reason", "a drill").code == 0, order
    assert row(served, 1).due == served.clock.now
    assert not row(served, 2).quarantined
    given = [entry for entry in told(served) if getattr(entry, "reason", "") == "a drill"]
    assert [entry.by for entry in given] == [getpass.getuser()] * 6  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_command_waits_while_the_service_writes(home: Home) -> None:
    shell, served = home
    writing, done = threading.Event(), threading.Event()

    def write() -> None:
        with transaction(served.engine) as connection:
            connection.execute(text("UPDATE holdings SET due = due"))
            writing.set()
            done.wait(TIMEOUT_SECONDS)

    thread = threading.Thread(target=write)
    thread.start()
    assert writing.wait(TIMEOUT_SECONDS)
    try:
        assert shell.run("status").stdout, "a reader doesn't wait"
        assert thread.is_alive()
        threading.Timer(HOLD_SECONDS, done.set).start()
        assert shell.run("audit", "ask", "holding-000000").code == 0
    finally:
        done.set()
        thread.join()
    last = told(served)[-1]
    assert isinstance(last, leaf.Instruction)
    assert last.subject == "holding-000000"
