"""`holdfast repair`: damaged blocks restored from copies that are intact."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.audit import Deadline, audit_facts, describe_audit
from holdfast.cli.checked_repair import find_checked_holding, show_repair
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, complete_holding, home_folder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.control.audit_now import Repair, repair_and_audit
from holdfast.owner import RepairedFile, RepairProgress
from holdfast.progress import BlockProgress

LINE_SECONDS = 5.0  # between two lines of progress, where there is no terminal


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
    lost or the audit doesn't pass. Of storage that a tool checks it only shows what is damaged and
    which commands repair it: exit 1 if there is damage. That needs no passphrase.

    Example: holdfast repair attic --source photos.tar
    """
    folder = home_folder(home)
    checked = find_checked_holding(folder, holding)
    if checked is not None:
        facts, text = show_repair(folder, checked)
        report(facts, text, as_json=as_json)
        return 1 if facts["damaged"] else 0
    opened = open_home(home, passphrase_file)
    with ProgressDisplay() as display:
        result = repair_and_audit(
            opened,
            holding,
            source or [],
            deadline_seconds=deadline,
            on_progress=display.show,
            on_unreachable=terminal.warn_left_out,
        )
    files = [_file_facts(file) for file in result.files]
    data = {"holding": holding, "files": files, "audit": audit_facts(result.audit)}
    report(data, _describe(data, result), as_json=as_json)
    return 0 if result.complete else 1


class ProgressDisplay(ExitStack):
    """Shows the search and then the repair: as bars, or as a line every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: terminal.Bar | None = None
        self._repairing: bool | None = None
        self._began = self._shown = time.monotonic()

    def show(self, progress: RepairProgress) -> None:
        now = time.monotonic()
        what = "repairing" if progress.repairing else "localising"
        if progress.repairing is not self._repairing:
            self.close()
            self._repairing, self._began = (
                progress.repairing,
                now if progress.repairing else self._began,
            )
            if sys.stderr.isatty():
                bar = terminal.progress_bar(what, progress.total, of_bytes=False)
                self._bar = self.enter_context(bar)
        words = BlockProgress(progress.done, progress.total, now - self._began).describe()
        if self._bar is not None:
            self._bar.describe(f"{what} {words}")
            self._bar.reach(progress.done)
        elif now - self._shown >= LINE_SECONDS:
            self._shown = now
            typer.echo(f"{what}: {words}", err=True)


def _file_facts(file: RepairedFile) -> dict[str, Any]:
    return {
        "name": file.name,
        "damaged": file.damaged.count,
        "blocks": [list(span) for span in file.damaged],
        "lost": [list(span) for span in file.lost],
        "lost_bytes": [list(span) for span in file.loss.ranges],
    }


def _describe(data: dict[str, Any], result: Repair) -> Iterator[str]:
    for file in result.files:
        damaged, lost = file.damaged.count, file.lost.count
        yield f"{file.name}: {damaged - lost:,} of {damaged:,} damaged blocks restored"
        if lost:
            yield f"lost, because no copy has them: {file.loss.describe()}"
    if not result.files:
        yield f"no block of {data['holding']} is damaged"
    yield describe_audit(data["audit"])
