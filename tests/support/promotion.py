"""A champion, a candidate and the commands that promote it."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import Workplace
from tests.support.owner_env import PASSPHRASE, QUICK
from tests.support.simulated_operation import SIGNER, Operation, operation

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.evidence.reader import VERIFIER
from holdfast.control.policies.aliases import read_aliases
from holdfast.model.scenario import PAPER
from holdfast.owner import Home
from holdfast.storage.database import transaction

SETTINGS = """
[control]
scenario = "paper"
[control.promotion]
episodes = 600
decisions = 20
shadow = "14 days"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    (tmp_path / "home" / "holdfast.toml").write_text(SETTINGS)
    (tmp_path / "home" / VERIFIER).write_text(f"{SIGNER.verifier}\n")
    return tmp_path / "home"


@pytest.fixture
def running(home: Path) -> Operation:
    return operation(home, PAPER, 8, seed=5)


@pytest.fixture
def desk(
    home: Path,
    running: Operation,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Workplace:
    """Return a place to run commands at, in the time of the operation, without the passphrase."""
    monkeypatch.setattr("holdfast.cli.control.milliseconds", lambda: running.clock.now)
    monkeypatch.setattr("holdfast.control.policies.promotion.fresh_seed", lambda: 0)
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    monkeypatch.delenv(PASSPHRASE_VARIABLE, raising=False)
    return Workplace(home, capsys)


def policy(desk: Workplace, *arguments: str, code: int = 0) -> Any:
    finished = desk.run("policy", *arguments, "--json")
    assert finished.code == code, finished
    return finished.data


def broken(verdict: Any) -> list[str]:
    return [check["name"] for check in verdict["checks"] if not check["passed"]]


def champion(running: Operation) -> str:
    with transaction(running.engine) as connection:
        return str(read_aliases(connection).champion)
