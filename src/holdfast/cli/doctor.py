"""`holdfast doctor`: what is wrong with a home and all around it, and what cures it."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import PASSPHRASE_VARIABLE, Json, PassphraseFile, say
from holdfast.secret_variables import secret

if TYPE_CHECKING:
    from holdfast.doctor.finding import Check


def doctor(
    home: HomeFolder = DEFAULT_HOME, passphrase_file: PassphraseFile = None, as_json: Json = False
) -> int:
    """Find what is wrong, and say what cures it: exit 1 if there is a fault.

    Looks at the settings, versions, keys, disk, database, ledger, contract, evidence, nodes and
    the clock, each by itself, and changes nothing. Without a passphrase it looks at the rest.

    Example: holdfast doctor
    """
    from holdfast.doctor.examination import examine  # noqa: PLC0415 - as in other commands
    from holdfast.doctor.finding import Grade  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    found = examine(folder, _passphrase(passphrase_file))
    faults = sum(each.grade is Grade.FAULT for each in found)
    if as_json:
        terminal.print_json({"fine": not faults, "checks": [asdict(each) for each in found]})
    else:
        _tell(found, faults)
    return 1 if faults else 0


def _passphrase(file: Path | None) -> bytes | None:
    """Return the passphrase, if there is anyone to tell it."""
    if file is None and secret(PASSPHRASE_VARIABLE) is None and not sys.stdin.isatty():
        return None
    return terminal.passphrase(file)


def _tell(found: list["Check"], faults: int) -> None:
    width = max(len(each.part) for each in found)
    for each in found:
        say(f"{each.grade:<7}  {each.part:<{width}}  {each.found}")
        if each.cure is not None:
            say(f"{'':<7}  {'':<{width}}  -> {each.cure}")
    say(f"{faults} {'fault' if faults == 1 else 'faults'} found" if faults else "no fault found")
