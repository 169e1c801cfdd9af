"""`holdfast backup` and `holdfast restore`: a home in one file, and a home made from it."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.home import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.control.backup import restore as restoration
from holdfast.control.backup.create import back_up
from holdfast.control.service import milliseconds
from holdfast.words import when


def backup(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Write a home into one file, while its service runs.

    Secrets stay sealed in it. Settings are in it as they are: protect the file if they have a
    password. The data on nodes isn't in it. Needs no passphrase.

    Example: holdfast backup holdfast-2026-03-01.tar
    """
    made = back_up(home.expanduser(), out, milliseconds())
    members = made.manifest.members
    data = {
        "backup": str(out),
        "left_out": [str(path) for path in made.left_out],
        "members": [asdict(member) for member in members],
    }
    size = sum(member.bytes for member in members)
    written = (
        f"wrote {out}: {len(members)} files, {size:,} bytes; it opens with the home's passphrase"
    )
    missing = [
        f"not in it: {path}, which the home needs: keep it yourself" for path in made.left_out
    ]
    report(data, [written, *missing], as_json=as_json)


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A file that backup wrote.")],
    home: HomeFolder = DEFAULT_HOME,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved",
            help="The old home did nothing after this backup: the evidence keeps its key.",
        ),
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A holdfast.toml that replaces the one in the backup, for another database.",
            show_default=False,
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Create a home from a backup.

    An existing home is not changed. Shut the old home down permanently first: two homes that share
    a key leak it. What the old home did after the backup is lost, so the evidence continues under
    a new key, unless you give --moved.

    Example: holdfast restore holdfast-2026-03-01.tar --home /srv/holdfast
    """
    folder = home.expanduser()
    restoration.check_absent(folder)  # before the prompt
    made = restoration.restore(
        source,
        folder,
        terminal.passphrase(passphrase_file),
        now=milliseconds(),
        moved=moved,
        settings=settings,
    )
    verifier = None if made.verifier is None else str(made.verifier)
    data = {"home": str(folder), "made": made.manifest.made, "moved": moved, "key": verifier}
    report(data, _describe_restore(data), as_json=as_json)


def _describe_restore(data: dict[str, Any]) -> Iterator[str]:
    yield f"created {data['home']} from the backup of {when(data['made'])}"
    if data["key"] is not None and not data["moved"]:
        yield f"the evidence continues under a new key: verify it with --key {data['key']}"
    yield f"check that everything works: holdfast doctor --home {data['home']}"
