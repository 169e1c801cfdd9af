"""`holdfast backup` and `holdfast restore`: a home in one file, and a home made from it."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, PassphraseFile, say


def backup(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Write all that a home needs to go on elsewhere into one file, while it is at work.

    Secrets stay sealed in it. The settings are in it as they are: keep the file from others if
    they have a password. What lies on nodes is not in it. Needs no passphrase.

    Example: holdfast backup holdfast-2026-03-01.tar
    """
    from holdfast.control.backup.create import back_up  # noqa: PLC0415 - as in other commands
    from holdfast.control.service import milliseconds  # noqa: PLC0415

    made = back_up(home.expanduser(), out, milliseconds())
    members = made.manifest.members
    if as_json:
        left = [str(path) for path in made.left_out]
        facts = {"backup": str(out), "left_out": left}
        terminal.print_json({**facts, "members": [asdict(each) for each in members]})
        return
    size = sum(each.bytes for each in members)
    say(f"wrote {out}: {len(members)} files, {size:,} bytes; its passphrase is that of the home")
    for path in made.left_out:
        say(f"not in it: {path}, which the home needs too: keep it yourself")


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A file that backup wrote.")],
    home: HomeFolder = DEFAULT_HOME,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved",
            help="The old home did nothing after this backup: its evidence keeps its key.",
        ),
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A holdfast.toml to use instead of the one in the backup, for another database.",
            show_default=False,
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make a home from a backup; one that is there already is left as it is.

    The old home must never run again: two homes with one key would betray it. What it did after
    the backup is lost, so the evidence goes on under a new key, unless you say --moved.

    Example: holdfast restore holdfast-2026-03-01.tar --home /srv/holdfast
    """
    from holdfast.control.backup import restore as restoration  # noqa: PLC0415 - as in other commands
    from holdfast.control.service import milliseconds  # noqa: PLC0415

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
    if as_json:
        facts = {"home": str(folder), "made": made.manifest.made, "moved": moved}
        terminal.print_json({**facts, "key": verifier})
        return
    from holdfast.evidence.explain import when  # noqa: PLC0415 - as above

    say(f"made {folder} from the backup of {when(made.manifest.made)}")
    if verifier is not None and not moved:
        say(f"the evidence goes on under a new key, to be verified with --key {verifier}")
    say(f"see whether all is well: holdfast doctor --home {folder}")
