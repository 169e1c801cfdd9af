"""The owner's home that a command is about, opened with its passphrase."""

import os
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import terminal
from holdfast.errors import HoldfastError
from holdfast.owner import Home, catalogue_in, check_home
from holdfast.owner.checked import list_checked
from holdfast.processes import keep_freed_memory

HOME_VARIABLE = "HOLDFAST_HOME"
DEFAULT_HOME = Path("~/.local/share/holdfast")
HomeFolder = Annotated[Path, typer.Option("--home", envvar=HOME_VARIABLE, help="The owner's home.")]


def home_folder(home: Path) -> Path:
    """Return the folder of a home that exists."""
    folder = home.expanduser()
    check_home(folder)
    return folder


def open_home(home: Path, passphrase_file: Path | None) -> Home:
    folder = home_folder(home)  # before the prompt
    keep_freed_memory()
    return Home.open(folder, terminal.passphrase(passphrase_file))


def complete_holding(incomplete: str) -> list[str]:
    """Offer the holdings of the home to the shell; none if the home can't be read."""
    folder = Path(os.environ.get(HOME_VARIABLE, DEFAULT_HOME)).expanduser()
    try:
        with catalogue_in(folder) as catalogue:
            names = [holding.name for holding in catalogue.holdings()]
            with catalogue.transaction() as connection:
                names += [record.name for record in list_checked(connection)]
    except (HoldfastError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]
