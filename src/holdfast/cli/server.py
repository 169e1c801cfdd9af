"""The running server of a home, as commands ask it; without one they do all by themselves."""

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from holdfast.errors import InputError

if TYPE_CHECKING:
    from holdfast.web.client import Server

T = TypeVar("T")
Reason = Annotated[str, typer.Option(help="Why, for the evidence.", show_default=False)]
MOST_ROWS = 200  # that the API tells at once


class WorkFailedError(InputError):
    """What the server was to work out can't be."""


def user() -> str:
    """Return who gives a command, as the evidence tells it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # whoever runs a container may have no name
        return "operator"


def server_of(home: Path) -> "Server | None":
    from holdfast.web.client import running  # noqa: PLC0415 - as in other commands

    return running(home.expanduser(), user())


def told(home: Path, kind: type[T], path: str, **query: Any) -> T | None:
    """Return what the running server tells, nothing if there is none that does."""
    server = server_of(home)
    return None if server is None else server.read(kind, path, **query)


def ordered(home: Path, path: str, reason: str) -> dict[str, Any] | None:
    """Return what the running server has done, nothing if there is none that may."""
    server = server_of(home)
    return None if server is None else server.order(path, reason=reason)


def ordered_about(home: Path, holding: str, order: str, reason: str) -> bool:
    """Order something about a holding from the running server; return whether it was done."""
    server = server_of(home)
    if server is None:
        return False
    page = server.read(dict, "holdings", search=holding[:100], limit=MOST_ROWS, sort="name")
    ids = [row["id"] for row in (page or {}).get("holdings", ()) if row["name"] == holding]
    return bool(ids) and server.order(f"holdings/{ids[0]}/{order}", reason=reason) is not None


def worked_out(server: "Server", path: str, last: str, reach: Any = None) -> Any:
    """Return the last word of a stream; nothing if the server does not tell it."""
    with server.events(path) as stream:
        for name, data in stream or ():
            if name == last:
                return data
            if name == "progress" and reach is not None:
                reach(data)
            if name == "failed":
                raise WorkFailedError(str(data["reason"]))
    return None
