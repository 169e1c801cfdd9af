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
        typer.Argument(
            metavar="FILE...", help="Files, addresses such as s3://bucket/key, or folders with -r."
        ),
    ],
    recursive: Annotated[
        bool,
        typer.Option(
            "--recursive", "-r", help="Put all files below a folder, by their paths within it."
        ),
    ] = False,
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
        str | None,
        typer.Option(
            help="The file's name in the catalogue. Default: its own. With -r, a folder for all."
        ),
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
    named = _named_files(files, name, recursive=recursive)
    if in_place is not None and len(named) > 1:
        raise InputError("--in-place is the path of one file: put the files one by one")
    sizes = {}
    for called, file in named.items():
        owner.check_name(called)
        with Location(file).open() as reader:
            sizes[called] = reader.size()
    opened = open_home(home, passphrase_file)
    holdings = owner.select_for_put(opened, to or [])
    if not replace:
        owner.check_sources(opened, holdings, named)
    facts = []
    for called, file in named.items():
        twice = 2 * len(holdings)  # each byte is tagged and sent
        with terminal.progress_bar(f"putting {file}", sizes[called], scale=twice) as bar:
            stored = owner.put_file(
                opened,
                holdings,
                called,
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
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The file's name in the catalogue. With -r a folder's, or '.' for all files.",
        ),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Restore all files below a folder.")
    ] = False,
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
        Path | None,
        typer.Option(
            help="Where to write the file, or the folder with -r. Default: its name, here."
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(min=1, help="Which version, if a node still has it. Default: the newest."),
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Download a file and check every block: exit 1 if a part is lost.

    A block that is damaged on one node comes from another node that has the same file. The output
    appears whole or not at all. An interrupted download resumes when you give the command again;
    with -r, files that are restored already are left as they are. A node keeps a version of a
    file until the next one is complete.

    Example: holdfast get photos.tar --out restored.tar
    """
    if recursive:
        if version is not None:
            raise InputError("--version is of one file: get the files one by one")
        opened = open_home(home, passphrase_file)
        return _get_folder(opened, name, source, out, as_json=as_json)
    owner.check_name(name)
    target = out or Path(name)
    if out is not None or target.parent.is_dir():
        atomic.check_output(target, overwrite=False)
    facts = _get_file(open_home(home, passphrase_file), name, source, target, version)
    report(facts, _describe_get(facts), as_json=as_json)
    return 1 if facts["lost"] else 0


def _get_folder(
    home: owner.Home, folder: str, source: str | None, out: Path | None, *, as_json: bool
) -> int:
    folder = folder.rstrip("/") or "."
    files = owner.list_files(home, folder, source)
    root = (out or Path()) if folder == "." else (out or Path(folder))
    missing = {}
    for name, file in files.items():
        target = root / (name if folder == "." else name.removeprefix(f"{folder}/"))
        if not target.exists():
            missing[name] = target
        elif Original.of(Location(str(target))).content.sha256 != file.sha256:
            raise InputError(f"{target} exists already and is another file: move it away")
    facts = [_get_file(home, name, source, target) for name, target in missing.items()]
    there = len(files) - len(missing)
    lines = [line for file in facts for line in _describe_get(file)]
    if there:
        lines.append(f"{there} of {len(files)} files were there already")
    report({"files": facts, "there": there}, lines, as_json=as_json)
    return 1 if any(file["lost"] for file in facts) else 0


def _get_file(
    home: owner.Home, name: str, source: str | None, out: Path, version: int | None = None
) -> dict[str, Any]:
    with (
        owner.replicas(home, name, source, terminal.warn_left_out, version) as (first, *others),
        terminal.progress_bar(f"getting {name}", first.file.length) as bar,
    ):
        atomic.make_directory(out.parent)
        fetched = owner.get(first, others, out, bar.reach)
    return {
        "name": name,
        "version": first.file.version,
        "holding": first.holding.name,
        "bytes": first.file.length,
        "kept": fetched.kept,
        "bad": [list(part) for part in fetched.bad],
        "lost": [list(part) for part in fetched.lost],
        "out": None if fetched.lost else str(out),
    }


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
    owner.check_name(name)
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


def _named_files(files: list[str], name: str | None, *, recursive: bool) -> dict[str, str]:
    """Return the paths of all files that are to be put, by their names in the catalogue."""
    if name is not None:
        if len(files) > 1:
            raise InputError("--name is for one file: put the files one by one")
        if not name:
            raise InputError("--name is empty: give the file a name")
    named: dict[str, str] = {}
    for file in files:
        for called, path in _expand(file, name, recursive=recursive).items():
            if named.setdefault(called, path) != path:
                raise InputError(
                    f"{named[called]} and {path} have the same name, {called!r}: put them one by "
                    "one with --name"
                )
    return named


def _expand(file: str, name: str | None, *, recursive: bool) -> dict[str, str]:
    if Location(file).is_remote or not Path(file).is_dir():
        return {owner.own_name(file) if name is None else name: file}
    if not recursive:
        raise InputError(f"{file} is a folder: put what is in it with -r")
    prefix = "" if name is None else f"{name}/"
    return {prefix + called: path for called, path in owner.list_folder(file).items()}


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
