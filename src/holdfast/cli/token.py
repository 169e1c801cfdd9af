"""`holdfast token`: who may call the API from another machine, and what they may do."""

from typing import Annotated, Literal

import typer

from holdfast.cli.control import open_control
from holdfast.cli.home import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, report
from holdfast.web import tokens
from holdfast.web.tokens import Token
from holdfast.words import when

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its holder, for the evidence.")]


def create(
    name: Name,
    role: Annotated[
        Literal["viewer", "operator", "admin"],
        typer.Option(
            help="A viewer reads. An operator also asks for audits, releases holdings and "
            "acknowledges alerts. An admin also promotes policies."
        ),
    ] = "viewer",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Create a token and print it.

    Keep it: only its SHA-256 is stored.

    Example: holdfast token create grafana --role viewer
    """
    with open_control(home) as control:
        token = tokens.create(control.engine, name, tokens.Role(role), control.author())
    report({"name": name, "role": role, "token": token}, token, as_json=as_json)


def list_tokens(home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """List the tokens, without their secrets.

    Example: holdfast token list
    """
    with open_control(home, read_only=True) as control:
        known = tokens.listing(control.engine)
    data = {"tokens": [vars(token) for token in known]}
    report(data, map(_describe, known), as_json=as_json)


def revoke(name: Name, home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Revoke a token. It stops working at once.

    Example: holdfast token revoke grafana
    """
    with open_control(home) as control:
        tokens.revoke(control.engine, name, control.author())
    data = {"name": name, "revoked": True}
    report(data, f"the token of {name} is revoked", as_json=as_json)


def _describe(token: Token) -> str:
    end = f", revoked {when(token.revoked)}" if token.revoked is not None else ""
    return f"{token.name}: {token.role}, created {when(token.created)}{end}"
