"""`holdfast put`, `get` and `rm`: files on nodes."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder, chosen, open_home
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.errors import HoldfastError, InputError, NodeError
from holdfast.node.segments import SEGMENT_BYTES
from holdfast.owner.catalogue import FileRecord
from holdfast.owner.content import Original
from holdfast.owner.get import get as fetch
from holdfast.owner.home import Home
from holdfast.owner.put import Put
from holdfast.owner.put import put as put_file
from holdfast.owner.remove import remove
from holdfast.owner.replica import Replica
from holdfast.pdp import Location
from holdfast.pdp.tagging import available_processes


def put(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files, or addresses such as s3://bucket/key."),
    ],
    to: Annotated[
        list[str], typer.Option("--to", metavar="HOLDING", help="Where to; else everywhere.")
    ] = [],  # noqa: B006 - Typer reads it and never changes it
    name: Annotated[
        str | None, typer.Option(help="The file's name in the catalogue; else its own.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Put files on nodes: tag, perhaps encrypt, upload. After an interruption, it goes on.

    A changed file becomes a new version of itself, an unchanged one costs nothing.

    Example: holdfast put photos.tar --to attic --to cellar
    """
    names = _names(files, name)
    sizes = {}
    for file in files:
        with Location(file).open() as reader:
            sizes[file] = reader.size()
    opened = open_home(home, passphrase_file)
    holdings = [record.name for record in chosen(opened, to)]
    facts = []
    for file in files:
        with terminal.progress_bar(f"putting {file}", 2 * sizes[file] * len(holdings)) as bar:
            original = Original.of(Location(file), SEGMENT_BYTES)
            stored = _everywhere(opened, holdings, names[file], original, bar.reach)
        facts += [_facts_of(holding, done) for holding, done in stored.items()]
    if as_json:
        terminal.print_json({"files": facts})
        return
    for fact in facts:
        how = f"sent {fact['sent']} bytes" if fact["sent"] else "was there already"
        say(f"{fact['name']} in {fact['holding']}: version {fact['version']}, {how}")
