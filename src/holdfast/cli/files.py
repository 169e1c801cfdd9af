"""`holdfast put`, `get` and `rm`: files on nodes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import atomic
from holdfast.cli import completion, terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.errors import InputError
from holdfast.pdp import Location

if TYPE_CHECKING:
    from holdfast.owner import UploadResult

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
            autocompletion=completion.holdings,
            help="Where to; else everywhere. Repeatable.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The file's name in the catalogue; else its own.")
    ] = None,
    in_place: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The file lies there already, under the node's --data: send its tags alone.",
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
    """Put files on nodes: tag, perhaps encrypt, upload. After an interruption, it goes on.

    A changed file becomes a new version of itself, an unchanged one costs nothing. A file of the
    same name from another path is refused: put it with --name, or with --replace if it was moved.

    Example: holdfast put photos.tar --to attic --to cellar
    """
    from holdfast.owner import Original, put_file, select_holdings  # noqa: PLC0415

    if in_place is not None and len(files) > 1:
        raise InputError("--in-place is the path of one file: put them one by one")
    names = _names(files, name)
    sizes = {}
    for file in files:
        with Location(file).open() as reader:
            sizes[file] = reader.size()
    opened = open_home(home, passphrase_file)
    holdings = [record.name for record in select_holdings(opened, to or [])]
    facts = []
    for file in files:
        with terminal.progress_bar(f"putting {file}", 2 * sizes[file] * len(holdings)) as bar:
            stored = put_file(
                opened,
                holdings,
                names[file],
                Original.of(Location(file)),
                in_place=in_place,
                replace_other=replace,
                on_progress=bar.reach,
            )
        facts += [_facts(holding, done) for holding, done in stored.items()]
    if as_json:
        terminal.print_json({"files": facts})
        return
    for fact in facts:
        how = f"{fact['sent']} bytes sent" if fact["sent"] else "was there already"
        say(f"{fact['name']} in {fact['holding']}: version {fact['version']}, {how}")


def get(
    name: Name,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="HOLDING",
            autocompletion=completion.holdings,
            help="Where to look first.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the file goes; else its name, here.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Get a file back, every block of it checked: exit 1 if a part is lost.

    What is bad on one node is taken from another that has the same file. The output appears whole
    or not at all. After an interruption, it goes on.

    Example: holdfast get photos.tar --out restored.tar
    """
    from holdfast.owner import get as fetch  # noqa: PLC0415
    from holdfast.owner import replicas  # noqa: PLC0415

    out = out or Path(Path(name).name)
    atomic.check_output(out, overwrite=False)
    opened = open_home(home, passphrase_file)
    with (
        replicas(opened, name, source, terminal.warn_left_out) as (first, *others),
        terminal.progress_bar(f"getting {name}", first.file.length) as bar,
    ):
        fetched = fetch(first, others, out, bar.reach)
    facts = {
        "name": name,
        "holding": first.holding.name,
        "bytes": first.file.length,
        "kept": fetched.kept,
        "bad": [list(part) for part in fetched.bad],
        "lost": [list(part) for part in fetched.lost],
        "out": None if fetched.lost else str(out),
    }
    if as_json:
        terminal.print_json(facts)
    else:
        for offset, length in fetched.lost:
            say(f"{name}: bytes {offset} to {offset + length - 1} are lost")
        found = f", {len(fetched.bad)} bad blocks made good" if fetched.bad else ""
        kept = f" ({fetched.kept} from before)" if fetched.kept else ""
        say(
            f"{name} can't be recovered: nothing was written"
            if fetched.lost
            else f"wrote {out}: {first.file.length} bytes{kept}, from {first.holding.name}{found}"
        )
    return 1 if fetched.lost else 0


def rm(
    name: Name,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="HOLDING",
            autocompletion=completion.holdings,
            help="Where; else everywhere. Repeatable.",
        ),
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Remove a file from its nodes and from the catalogue.

    Example: holdfast rm photos.tar --from attic
    """
    from holdfast.owner import remove  # noqa: PLC0415

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
            remove(place, name)
    if as_json:
        terminal.print_json({"name": name, "removed_from": holdings})
    else:
        say(f"removed {name} from {', '.join(holdings)}")


def _names(files: list[str], name: str | None) -> dict[str, str]:
    if name is not None and len(files) > 1:
        raise InputError("--name is for one file: put the others by themselves")
    names = {file: name or file.rstrip("/").rpartition("/")[2] for file in files}
    if "" in names.values() or len(set(names.values())) < len(names):
        raise InputError("two files would have the same name, or one none: put them with --name")
    return names


def _facts(holding: str, done: "UploadResult") -> dict[str, Any]:
    return {
        "name": done.file.name,
        "holding": holding,
        "file_id": done.file.file_id.hex(),
        "version": done.file.version,
        "bytes": done.file.length,
        "sha256": done.file.sha256.hex(),
        "sent": done.sent,
    }
