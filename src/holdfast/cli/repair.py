"""`holdfast repair`: damaged blocks restored from copies that are intact."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.audit import Deadline, audit_facts, describe_audit
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, complete_holding, open_home
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.owner import repair_holding


def repair(
    holding: Annotated[
        str,
        typer.Argument(
            metavar="HOLDING", autocompletion=complete_holding, help="The holding to repair."
        ),
    ],
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A copy of your own to take blocks from. Repeatable."),
    ] = None,
    deadline: Deadline = 30,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Find damaged blocks, restore them and audit the holding.

    Blocks come from other holdings that have the same file, or from --source. Exit 1 if blocks are
    lost or the audit doesn't pass.

    Example: holdfast repair attic --source photos.tar
    """
    opened = open_home(home, passphrase_file)
    with terminal.progress_bar("locating", 1, of_bytes=False) as bar:
        result = repair_holding(
            opened,
            holding,
            source or [],
            deadline_seconds=deadline,
            on_progress=bar.reach,
            on_unreachable=terminal.warn_left_out,
        )
    files = [
        {
            "name": file.name,
            "damaged": len(file.damaged),
            "blocks": file.damaged,
            "lost": file.lost,
        }
        for file in result.files
    ]
    data = {"holding": holding, "files": files, "audit": audit_facts(result.audit)}
    report(data, _describe(data), as_json=as_json)
    return 0 if result.complete else 1


def _describe(data: dict[str, Any]) -> Iterator[str]:
    for file in data["files"]:
        restored = file["damaged"] - len(file["lost"])
        yield f"{file['name']}: {restored} of {file['damaged']} damaged blocks restored"
    if not data["files"]:
        yield f"no block of {data['holding']} is damaged"
    yield describe_audit(data["audit"])
