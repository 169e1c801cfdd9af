"""`holdfast doctor`: what is wrong with a home and its surroundings, and how to cure it."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from holdfast.cli import terminal
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, home_folder
from holdfast.cli.terminal import PASSPHRASE_VARIABLE, Json, PassphraseFile, report, table
from holdfast.doctor.examination import examine
from holdfast.doctor.finding import Check, Grade
from holdfast.secret_variables import secret


def doctor(
    home: HomeFolder = DEFAULT_HOME, passphrase_file: PassphraseFile = None, as_json: Json = False
) -> int:
    """Find faults and name their cures: exit 1 if there is one.

    It checks the settings, versions, keys, disk, database, ledger, contract, evidence, nodes and
    the clock, and changes nothing. Without a passphrase it skips what needs one.

    Example: holdfast doctor
    """
    checks = examine(home_folder(home), _passphrase(passphrase_file))
    faults = sum(check.grade is Grade.FAULT for check in checks)
    data = {"fine": not faults, "checks": [asdict(check) for check in checks]}
    report(data, _describe(checks, faults), as_json=as_json)
    return 1 if faults else 0


def _passphrase(file: Path | None) -> bytes | None:
    """Return the passphrase, if it was given or can be asked for."""
    if file is None and secret(PASSPHRASE_VARIABLE) is None and not sys.stdin.isatty():
        return None
    return terminal.passphrase(file)


def _describe(checks: list[Check], faults: int) -> Iterator[str | Table]:
    rows = []
    for check in checks:
        rows.append((str(check.grade), check.part, check.found))
        if check.cure is not None:
            rows.append(("", "", f"-> {check.cure}"))
    yield table(("", "", ""), rows)
    yield f"{faults} {'fault' if faults == 1 else 'faults'}" if faults else "no faults"
