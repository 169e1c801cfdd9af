"""What the shells are offered while a command is typed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.command_line import SCRIPT
from tests.support.owner_env import PASSPHRASE, QUICK

from holdfast.owner import HoldingRecord, Home


def offered(shell: str, line: str, home: Path) -> str:
    """Return what the completion script of a shell is told."""
    words = line.split(" ")
    variables = {
        **os.environ,
        "HOLDFAST_HOME": str(home),
        "_HOLDFAST_COMPLETE": f"complete_{shell}",
    }
    variables |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    variables |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [sys.executable, SCRIPT], env=variables, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_holdings_are_offered_to_every_shell(shell: str, tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    with home.catalogue() as catalogue:
        for name in ("attic", "cellar"):
            catalogue.add_holding(HoldingRecord(name, "http://h", b"n", None, b"s", 16, False))
    told = offered(shell, "holdfast audit now at", home.folder)
    assert "attic" in told
    assert "cellar" not in told


@pytest.mark.slow
def test_commands_policies_and_scenarios_are_offered(tmp_path: Path) -> None:
    assert "doctor" in offered("bash", "holdfast doc", tmp_path)
    assert "fixed-high" in offered("bash", "holdfast evaluate --policy fix", tmp_path)
    assert "drift" in offered("bash", "holdfast evaluate --scenario dr", tmp_path)


@pytest.mark.slow
def test_where_there_is_no_home_nothing_is_offered(tmp_path: Path) -> None:
    assert "attic" not in offered("bash", "holdfast audit now at", tmp_path)
    assert not list(tmp_path.iterdir())
