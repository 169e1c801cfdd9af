"""`holdfast init` and `holdfast passphrase`: the owner's home and what opens it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, home_folder
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.owner import Home, check_new
from holdfast.owner.home import KEY
from holdfast.owner.keyring import reseal
from holdfast.secret_variables import NEW_PASSPHRASE


def init(
    home: HomeFolder = DEFAULT_HOME, passphrase_file: PassphraseFile = None, as_json: Json = False
) -> None:
    """Create the owner's home: one secret, sealed with a passphrase.

    It asks for the passphrase and nothing else. All other settings have defaults, which `holdfast
    config show` lists.

    Example: holdfast init
    """
    folder = home.expanduser()
    check_new(folder)
    made = Home.create(folder, terminal.passphrase(passphrase_file, confirm=True))
    owner = made.keyring.owner.hex()
    report({"home": str(folder), "owner": owner}, _next_steps(folder, owner), as_json=as_json)


def _next_steps(folder: Path, owner: str) -> Iterator[str]:
    yield f"created {folder}:"
    yield "  owner.key  your secret, sealed: keep it and its passphrase, nothing works without them"
    yield "  owner.pub  your public key, for nodes"
    yield "next:"
    yield f"  holdfast node serve --store DIR --key node.key --owner {owner}"
    yield "                                  on each node, so that it accepts your files"
    yield "  holdfast holding add NAME URL   create a holding on that node"
    yield "  holdfast put FILE               tag a file and upload it"
    yield "  holdfast holding add --help     or audit storage you have: --restic, --direct"
    yield "  holdfast serve                  audit from now on"
    yield "  holdfast doctor                 check that everything works"
    yield "  holdfast backup FILE            keep the file elsewhere, with the passphrase"


def passphrase(
    new_passphrase_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with the new passphrase. Default: {NEW_PASSPHRASE}, or a prompt.",
            show_default=False,
        ),
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Change the passphrase of the owner's secret.

    Nodes and ledgers aren't affected. Copies and backups of the home still open with the old one.

    Example: holdfast passphrase --new-passphrase-file new.txt
    """
    folder = home_folder(home)
    old = terminal.passphrase(passphrase_file)
    new = terminal.passphrase(
        new_passphrase_file, variable=NEW_PASSPHRASE, prompt="New passphrase: ", confirm=True
    )
    keyring = reseal(folder / KEY, old, new)
    report(
        {"home": str(folder), "owner": keyring.owner.hex()},
        f"{folder / KEY} now opens with the new passphrase only: back it up, delete old copies",
        as_json=as_json,
    )
