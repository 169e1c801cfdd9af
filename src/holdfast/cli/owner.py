"""`holdfast init` and `holdfast holding`: the owner's home, and what is kept on which node."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.pdp import encoding
from holdfast.pdp.field import DEFAULT_SECTORS

if TYPE_CHECKING:
    from holdfast.owner import Catalogue, HoldingRecord, Home

ADDRESS_BYTES = 20
DEFAULT_HOME = Path("~/.local/share/holdfast")
HomeFolder = Annotated[
    Path, typer.Option("--home", envvar="HOLDFAST_HOME", help="The owner's home.")
]

# The owner's room is imported where it is needed: it takes as long as all other commands together.
holding = typer.Typer(no_args_is_help=True, help="Holdings: all files on one node, under one key.")


def open_home(folder: Path, passphrase_file: Path | None) -> "Home":
    from holdfast.owner import Home, check_home  # noqa: PLC0415

    folder = folder.expanduser()
    check_home(folder)  # before the prompt
    return Home.open(folder, terminal.passphrase(passphrase_file))


def init(
    home: HomeFolder = DEFAULT_HOME, passphrase_file: PassphraseFile = None, as_json: Json = False
) -> None:
    """Make the owner's home, with one secret in it, sealed under a passphrase.

    It asks for the passphrase and nothing else; what else there is to set has a default, which
    `holdfast config show` tells.

    Example: holdfast init
    """
    from holdfast.owner import Home, check_new  # noqa: PLC0415

    folder = home.expanduser()
    check_new(folder)
    made = Home.create(folder, terminal.passphrase(passphrase_file, confirm=True))
    owner = made.keyring.owner.hex()
    if as_json:
        terminal.print_json({"home": str(folder), "owner": owner})
        return
    for line in _made(folder, owner):
        say(line)


def _made(folder: Path, owner: str) -> list[str]:
    return [
        f"made {folder}:",
        "  owner.key  your one secret, sealed: without it and its passphrase nothing is recovered",
        "  owner.pub  what nodes know you by",
        "next:",
        f"  holdfast node serve --store DIR --key node.key --owner {owner}",
        "                                  whoever runs a node lets you in so",
        "  holdfast holding add NAME URL   make a holding on that node",
        "  holdfast put FILE               tag a file and upload it",
        "  holdfast serve                  audit by itself from then on",
        "  holdfast doctor                 see whether all is well",
        "  holdfast backup FILE            and keep it elsewhere, with the passphrase",
    ]


@holding.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you call the holding.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Where its node listens.")],
    sectors: Annotated[
        int, typer.Option(help="Sectors of 31 bytes in a block: tags take 32 bytes a block.")
    ] = DEFAULT_SECTORS,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt what goes to this node.")
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(help="The address that the node must have; else the one it has is pinned."),
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(help="Certificates to trust, instead of the system's.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make a holding on a node: pin the node, make a key, and register it.

    Example: holdfast holding add attic https://attic.example:8470 --encrypt
    """
    from holdfast.owner import add_holding  # noqa: PLC0415

    expected = None
    if address is not None:
        expected = encoding.unhex(address.removeprefix("0x").lower(), ADDRESS_BYTES, "--address")
    record = add_holding(
        open_home(home, passphrase_file),
        name,
        url,
        sectors=sectors,
        encrypted=encrypt,
        ca=str(ca.absolute()) if ca else None,
        address=expected,
    )
    if as_json:
        terminal.print_json(_facts(record))
    else:
        say(f"holding {name} is on the node {record.node.hex()} at {url}, pinned from now on")


@holding.command(name="list")
def list_command(
    files: Annotated[bool, typer.Option("--files", help="Name the files, too.")] = False,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Show the holdings, what is in them, and what is under way. Needs no passphrase.

    Example: holdfast holding list --files
    """
    from holdfast.owner import catalogue_in  # noqa: PLC0415

    with catalogue_in(home.expanduser()) as catalogue:
        shown = [
            {**_facts(record), **_content(catalogue, record, named=files)}
            for record in catalogue.holdings()
        ]
    if as_json:
        terminal.print_json({"holdings": shown})
        return
    for facts in shown:
        encrypted = ", encrypted" if facts["encrypted"] else ""
        say(
            f"{facts['holding']}: {facts['file_count']} files, {facts['bytes']} bytes in "
            f"{facts['blocks']} blocks{encrypted}, on {facts['node']} at {facts['url']}"
        )
        for file in facts.get("files", ()):
            say(f"  {file['name']}: {file['bytes']} bytes, version {file['version']}")
        for name in facts["unfinished"]:
            say(f"  {name}: on its way, put it again to go on")
    if not shown:
        say("there are no holdings yet: `holdfast holding add NAME URL` makes one")


def _facts(record: "HoldingRecord") -> dict[str, Any]:
    return {
        "holding": record.name,
        "url": record.url,
        "node": record.node.hex(),
        "sectors": record.sectors,
        "encrypted": record.encrypted,
        "number": record.number,
    }


def _content(catalogue: "Catalogue", record: "HoldingRecord", *, named: bool) -> dict[str, Any]:
    files = catalogue.files(record.name)
    facts: dict[str, Any] = {
        "file_count": len(files),
        "bytes": sum(file.length for file in files),
        "blocks": sum(file.entry(record.sectors).blocks for file in files),
        "unfinished": [intent.file.name for intent in catalogue.intents(record.name)],
    }
    if named:
        facts["files"] = [
            {
                "name": file.name,
                "source": file.source,
                "file_id": file.file_id.hex(),
                "version": file.version,
                "bytes": file.length,
                "sha256": file.sha256.hex(),
            }
            for file in files
        ]
    return facts
