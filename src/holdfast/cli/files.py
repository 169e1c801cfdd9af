"""`holdfast put`, `get` and `rm`: files on nodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import atomic, owner
from holdfast.cli import terminal
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, complete_holding, open_home
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.errors import InputError
from holdfast.owner import Original, UploadResult
from holdfast.pdp import Location

Name = Annotated[str, typer.Argument(metavar="NAME", help="The file's name in the catalogue.")]


def put(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files, or addresses such as s3://bucket/key."),
    ],
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="HOLDING",
            autocompletion=complete_holding,
            help="Put it there. Default: in all holdings. Repeatable.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The file's name in the catalogue. Default: its own.")
    ] = None,
    in_place: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The file is there already, below the node's --data: send only its tags.",
            show_default=False,
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace a file of the same name from another path."),
    ] = False,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Put files on nodes: tag them, encrypt them if asked, upload them.

    An interrupted upload resumes when you give the command again. A changed file becomes a new
    version, an unchanged one costs nothing. A file of the same name from another path is refused:
    use --name, or --replace if you moved the file.

    Example: holdfast put photos.tar --to attic --to cellar
    """
    if in_place is not None and len(files) > 1:
        raise InputError("--in-place is the path of one file: put the files one by one")
    names = _names(files, name)
    sizes = {}
    for file in files:
        with Location(file).open() as reader:
            sizes[file] = reader.size()
    opened = open_home(home, passphrase_file)
    holdings = [record.name for record in owner.select_holdings(opened, to or [])]
    facts = []
    for file in files:
        with terminal.progress_bar(f"putting {file}", 2 * sizes[file] * len(holdings)) as bar:
            stored = owner.put_file(
                opened,
                holdings,
                names[file],
                Original.of(Location(file)),
                in_place=in_place,
                replace_other=replace,
                on_progress=bar.reach,
            )
        facts += [_put_facts(holding, done) for holding, done in stored.items()]
    report({"files": facts}, map(_describe_put, facts), as_json=as_json)


def _describe_put(file: dict[str, Any]) -> str:
    how = f"{file['sent']} bytes sent" if file["sent"] else "unchanged"
    return f"{file['name']} in {file['holding']}: version {file['version']}, {how}"


def get(
    name: Name,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="HOLDING",
            autocompletion=complete_holding,
            help="The holding to read first.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the file. Default: its name, here.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Download a file and check every block: exit 1 if a part is lost.

    A block that is damaged on one node comes from another node that has the same file. The output
    appears whole or not at all. An interrupted download resumes when you give the command again.

    Example: holdfast get photos.tar --out restored.tar
    """
    out = out or Path(Path(name).name)
    atomic.check_output(out, overwrite=False)
    opened = open_home(home, passphrase_file)
    with (
        owner.replicas(opened, name, source, terminal.warn_left_out) as (first, *others),
        terminal.progress_bar(f"getting {name}", first.file.length) as bar,
    ):
        fetched = owner.get(first, others, out, bar.reach)
    facts = {
        "name": name,
        "holding": first.holding.name,
        "bytes": first.file.length,
        "kept": fetched.kept,
        "bad": [list(part) for part in fetched.bad],
        "lost": [list(part) for part in fetched.lost],
        "out": None if fetched.lost else str(out),
    }
    report(facts, _describe_get(facts), as_json=as_json)
    return 1 if fetched.lost else 0


def _describe_get(facts: dict[str, Any]) -> Iterator[str]:
    name = facts["name"]
    for offset, length in facts["lost"]:
        yield f"{name}: bytes {offset} to {offset + length - 1} are lost"
    if facts["lost"]:
        yield f"{name} can't be recovered: nothing was written"
        return
    repaired = f", {len(facts['bad'])} bad blocks read from other nodes" if facts["bad"] else ""
    kept = f" ({facts['kept']} downloaded before)" if facts["kept"] else ""
    yield f"wrote {facts['out']}: {facts['bytes']} bytes{kept}, from {facts['holding']}{repaired}"


def rm(
    name: Name,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="HOLDING",
            autocompletion=complete_holding,
            help="Remove it there. Default: from all holdings. Repeatable.",
        ),
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Remove a file from its nodes and from the catalogue.

    Example: holdfast rm photos.tar --from attic
    """
    opened = open_home(home, passphrase_file)
    with opened.catalogue() as catalogue:
        holdings = source or [
            record.name
            for record in catalogue.holdings()
            if catalogue.file(record.name, name) or catalogue.intent(record.name, name)
        ]
    if not holdings:
        raise InputError(f"no holding has a file {name!r}")
    for holding in holdings:
        with opened.changing(holding) as place:
            owner.remove(place, name)
    data = {"name": name, "removed_from": holdings}
    report(data, f"removed {name} from {', '.join(holdings)}", as_json=as_json)


def _names(files: list[str], name: str | None) -> dict[str, str]:
    if name is not None:
        if len(files) > 1:
            raise InputError("--name is for one file: put the files one by one")
        if not name:
            raise InputError("--name is empty: give the file a name")
        return {files[0]: name}
    names = {file: file.rstrip("/").rpartition("/")[2] for file in files}
    if "" in names.values() or len(set(names.values())) < len(names):
        raise InputError("two files have the same name, or one has none: put them with --name")
    return names


def _put_facts(holding: str, done: UploadResult) -> dict[str, Any]:
    return {
        "name": done.file.name,
        "holding": holding,
        "file_id": done.file.file_id.hex(),
        "version": done.file.version,
        "bytes": done.file.length,
        "sha256": done.file.sha256.hex(),
        "sent": done.sent,
    }
