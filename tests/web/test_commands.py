"""Commands speak to the running server, and tell and do the same without one."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.command_line import PASSPHRASE, Workplace
from tests.support.fits import fitted
from tests.support.live_web import Served, serving
from tests.web.changes import row, told

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.inference.fits import save_fit
from holdfast.control.policies.aliases import Author, challenge, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.scheduling.guardrails import DAY
from holdfast.control.settings.models import Conditions
from holdfast.evidence import leaf
from holdfast.model.scenario import PAPER
from holdfast.storage.database import transaction
from holdfast.storage.schema import NEVER, holdings
from holdfast.web.client import PLACE

EASY = Conditions(
    ceiling=0.9, episodes=64, decisions=2, shadow=DAY, gas_margin=1e3, rails_margin=1.0
)
READS = (
    ("status",),
    ("confidence",),
    ("policy", "list"),
    ("policy", "show", "champion"),
    ("policy", "shadow"),
    ("policy", "history"),
)
HERE = f"{getpass.getuser()}, this machine"


@pytest.fixture
def home(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Workplace, Served]]:
    """Yield a shell in which commands are about a home that is served, with a challenger."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HOLDFAST_HOME", str(folder))
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE)
    workplace = Workplace(tmp_path, capsys)
    assert workplace.run("init").code == 0
    (folder / "holdfast.toml").write_text(
        '[control]\nscenario = "paper"\n[control.promotion]\nceiling = 0.9\nepisodes = 64\n'
        'decisions = 2\nshadow = "1 day"\ngas_margin = 1000\nrails_margin = 1.0\n'
    )
    with serving(folder, str(folder / "holdfast.db"), EASY, count=2, days=1) as running:
        monkeypatch.setattr("holdfast.control.service.milliseconds", running.clock)
        author = Author("a test", running.clock.now)
        version = Registry(running.engine).register("fixed-high", PAPER, author.at).version
        with transaction(running.engine) as connection:
            known = read_aliases(connection)
        challenge(running.engine, known, version, author)
        running.operation.until(running.clock.now + 40 * DAY)
        save_fit(running.engine, fitted(0.1), running.clock.now)
        yield workplace, running


@contextmanager
def alone(served: Served) -> Iterator[None]:
    """Let commands find no server meanwhile."""
    place = served.folder / PLACE
    content = place.read_bytes()
    place.unlink()
    yield
    place.write_bytes(content)


@contextmanager
def without_database() -> Iterator[None]:
    """Let no command open the database meanwhile."""

    def fail(*_given: Any, **_more: Any) -> None:
        raise AssertionError("the server was not asked")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.storage.database.opened", fail)
        yield


def test_what_commands_tell_is_the_same_with_a_server_and_without(
    home: tuple[Workplace, Served],
) -> None:
    shell, served = home
    for command in READS:
        for form in ((), ("--json",)):
            with without_database():
                asked = shell.run(*command, *form)
            with alone(served):
                read = shell.run(*command, *form)
            assert asked == read, command
            assert asked.stdout
    for wrong in (("show", "ffff"), ("show", "no/such"), ("promote", "champion")):
        asked = shell.run("policy", *wrong)
        with alone(served):
            assert shell.run("policy", *wrong).sentence() == asked.sentence()


def test_a_version_that_does_well_is_promoted_by_the_server(home: tuple[Workplace, Served]) -> None:
    shell, served = home
    with without_database():
        judged = shell.run("policy", "promote", "--dry-run", "--json")
        other = shell.run("policy", "promote", "--dry-run", "--json")
        assert judged.data["figures"]["seed"] != other.data["figures"]["seed"]
    seed = str(judged.data["figures"]["seed"])
    assert shell.run("policy", "promote", "--dry-run", "--json", "--seed", seed) == judged
    with without_database():
        done = shell.run("policy", "promote", "--json")
    assert [each for each in done.data["checks"] if not each["passed"]] == []
    assert (done.data["passed"], done.data["promoted"], done.data["forced"]) == (True, True, False)
    change = told(served)[-1]
    assert isinstance(change, leaf.PolicyChange)
    assert (change.change, change.by, change.forced) == (leaf.Change.PROMOTED, HERE, False)
    assert [check.name for check in change.checks] == [
        check["name"] for check in done.data["checks"]
    ]


def test_orders_are_given_to_the_server_which_records_who_gave_them(
    home: tuple[Workplace, Served],
) -> None:
    shell, served = home
    with transaction(served.engine) as connection:
        apart = {"quarantined": True, "due": NEVER}
        connection.execute(update(holdings).where(holdings.c.id == 2).values(apart))
    with without_database():
        for order in (
            ("audit", "ask", "holding-000000"),
            ("audit", "release", "holding-000001"),
            ("policy", "withdraw"),
            ("policy", "challenge", _version(served, "fixed-high")),
            ("policy", "promote", "--force"),
            ("policy", "rollback"),
        ):
            assert shell.run(*order, "--reason", "a drill").code == 0, order
    assert row(served, 1).due == served.clock.now
    assert not row(served, 2).quarantined
    given = [each for each in told(served) if getattr(each, "reason", "") == "a drill"]
    assert [each.by for each in given] == [HERE] * 6  # type: ignore[union-attr]
    with alone(served):
        assert shell.run("audit", "ask", "holding-000001").code == 0
    last = told(served)[-1]
    assert isinstance(last, leaf.Instruction)
    assert last.by == getpass.getuser()


def _version(served: Served, name: str) -> str:
    found = Registry(served.engine).listing()
    return next(each.version for each in found if each.name == name)
