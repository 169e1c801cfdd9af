"""The control plane of a home, as commands use it: its settings and its database.

Commands work on the database whether `holdfast serve` runs or not, and need no passphrase.
"""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import Engine

from holdfast.cli.home import home_folder
from holdfast.control.policies.aliases import Author
from holdfast.control.service import milliseconds
from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.storage.database import open_database

Reason = Annotated[str, typer.Option(help="Why. The evidence records it.", show_default=False)]


@dataclass(frozen=True)
class ControlPlane:
    folder: Path
    settings: ControlSettings
    engine: Engine

    def now(self) -> int:
        return milliseconds()

    def author(self, reason: str = "") -> Author:
        """Return the operator who gives this command, for the evidence."""
        return operator(reason)


@contextmanager
def open_control(home: Path, *, read_only: bool = False) -> Iterator[ControlPlane]:
    folder = home_folder(home)
    settings = read_control(folder)
    with open_database(settings.address(folder), read_only=read_only) as engine:
        yield ControlPlane(folder, settings, engine)


def operator(reason: str = "") -> Author:
    """Return who gives this command, for the evidence."""
    return Author(user(), milliseconds(), reason)


def user() -> str:
    """Return the name of the operator."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # in a container the user may have no name
        return "operator"
