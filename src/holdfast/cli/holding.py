"""`holdfast holding`: what is stored on which node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.home import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.owner import Catalogue, HoldingRecord, add_holding, catalogue_in
from holdfast.pdp import encoding
from holdfast.pdp.field import DEFAULT_SECTORS

ADDRESS_BYTES = 20


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new holding.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="The URL of its node.")],
    sectors: Annotated[
        int, typer.Option(help="Sectors of 31 bytes per block. A block's tag takes 32 bytes.")
    ] = DEFAULT_SECTORS,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt everything that is sent to this node.")
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(help="The address that the node must have. Default: pin the one it has."),
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(help="Certificates to trust instead of the system's.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Create a holding: pin its node, make a key and register it.

    Example: holdfast holding add attic https://attic.example:8470 --encrypt
    """
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
    sentence = f"holding {name} is on the node {record.node.hex()} at {url}, which is now pinned"
    report(_record_facts(record), sentence, as_json=as_json)


def list_holdings(
    files: Annotated[bool, typer.Option("--files", help="List the files as well.")] = False,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """List the holdings, their files and unfinished uploads.

    Needs no passphrase.

    Example: holdfast holding list --files
    """
    with catalogue_in(home.expanduser()) as catalogue:
        holdings = [
            {**_record_facts(record), **_content_facts(catalogue, record, with_files=files)}
            for record in catalogue.holdings()
        ]
    report({"holdings": holdings}, _describe(holdings), as_json=as_json)


def _describe(holdings: list[dict[str, Any]]) -> Iterator[str]:
    for facts in holdings:
        encrypted = ", encrypted" if facts["encrypted"] else ""
        yield (
            f"{facts['holding']}: {facts['file_count']} files, {facts['bytes']} bytes in "
            f"{facts['blocks']} blocks{encrypted}, on {facts['node']} at {facts['url']}"
        )
        for file in facts.get("files", ()):
            yield f"  {file['name']}: {file['bytes']} bytes, version {file['version']}"
        for name in facts["unfinished"]:
            yield f"  {name}: upload unfinished, put it again to resume"
    if not holdings:
        yield "there are no holdings yet: create one with `holdfast holding add`"


def _record_facts(record: HoldingRecord) -> dict[str, Any]:
    return {
        "holding": record.name,
        "url": record.url,
        "node": record.node.hex(),
        "sectors": record.sectors,
        "encrypted": record.encrypted,
        "number": record.number,
    }


def _content_facts(
    catalogue: Catalogue, record: HoldingRecord, *, with_files: bool
) -> dict[str, Any]:
    files = catalogue.files(record.name)
    facts: dict[str, Any] = {
        "file_count": len(files),
        "bytes": sum(file.length for file in files),
        "blocks": sum(file.entry(record.sectors).blocks for file in files),
        "unfinished": [intent.file.name for intent in catalogue.intents(record.name)],
    }
    if with_files:
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
