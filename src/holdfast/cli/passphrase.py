"""`holdfast passphrase`: the owner's secret under another passphrase."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.secret_variables import NEW_PASSPHRASE


def passphrase(
    new_passphrase_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with the new one; else {NEW_PASSPHRASE}, else a prompt.", show_default=False
        ),
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Seal the owner's secret under another passphrase. Nodes and ledgers notice nothing.

    Copies of the home, and backups, still open with the old one.

    Example: holdfast passphrase --new-passphrase-file new.txt
    """
    from holdfast.owner.home import KEY, check_home  # noqa: PLC0415 - as in other commands
    from holdfast.owner.keyring import reseal  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    old = terminal.passphrase(passphrase_file)
    new = terminal.passphrase(
        new_passphrase_file, variable=NEW_PASSPHRASE, prompt="New passphrase: ", confirm=True
    )
    keyring = reseal(folder / KEY, old, new)
    if as_json:
        terminal.print_json({"home": str(folder), "owner": keyring.owner.hex()})
    else:
        say(f"{folder / KEY} opens with the new passphrase only: back it up, and drop old copies")
