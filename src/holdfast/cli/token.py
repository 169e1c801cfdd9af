"""`holdfast token`: who may speak to the API from another machine, and what they may do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, say

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from holdfast.control.policies.aliases import Author

app = typer.Typer(no_args_is_help=True, help="Who may speak to the API from another machine.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose it is, as the evidence tells.")]


@app.command()
def create(
    name: Name,
    role: Annotated[
        Literal["viewer", "operator", "admin"],
        typer.Option(help="Look; order audits, release, acknowledge; promote policies as well."),
    ] = "viewer",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Print a new token. Keep it: only its SHA-256 is stored.

    Example: holdfast token create grafana --role viewer
    """
    from holdfast.web import tokens  # noqa: PLC0415 - as in other commands

    with _changing(home) as (engine, author):
        token = tokens.create(engine, name, tokens.Role(role), author)
    if as_json:
        terminal.print_json({"name": name, "role": role, "token": token})
    else:
        say(token)


@app.command(name="list")
def list_command(home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """List the tokens, but not what they are.

    Example: holdfast token list
    """
    from holdfast.evidence.explain import when  # noqa: PLC0415
    from holdfast.storage.database import opened  # noqa: PLC0415 - as above
    from holdfast.web import tokens  # noqa: PLC0415

    with opened(_address(home), read_only=True) as engine:
        found = tokens.listing(engine)
    if as_json:
        terminal.print_json({"tokens": [vars(each) for each in found]})
        return
    for each in found:
        end = f", revoked {when(each.revoked)}" if each.revoked is not None else ""
        say(f"{each.name}: {each.role}, created {when(each.created)}{end}")


@app.command()
def revoke(name: Name, home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Make a token worthless at once.

    Example: holdfast token revoke grafana
    """
    from holdfast.web import tokens  # noqa: PLC0415 - as above

    with _changing(home) as (engine, author):
        tokens.revoke(engine, name, author)
    if as_json:
        terminal.print_json({"name": name, "revoked": True})
    else:
        say(f"{name} may not speak to the API any more")


@contextmanager
def _changing(home: Path) -> Iterator[tuple["Engine", "Author"]]:
    from holdfast.control.policies.aliases import Author  # noqa: PLC0415
    from holdfast.control.service import milliseconds  # noqa: PLC0415
    from holdfast.storage.database import opened  # noqa: PLC0415 - as above

    with opened(_address(home), read_only=False) as engine:
        yield engine, Author("the command line", milliseconds())


def _address(home: Path) -> str:
    from holdfast.control.settings.models import read_control  # noqa: PLC0415 - as above
    from holdfast.owner import check_home  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    return read_control(folder).address(folder)
