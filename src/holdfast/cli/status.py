"""`holdfast status`: how all holdings stand, whether a service runs or not."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.server import MOST_ROWS, told
from holdfast.cli.terminal import Json, say

if TYPE_CHECKING:
    from holdfast.control.status import Head, HoldingStatus, Status


def status(
    limit: Annotated[
        int, typer.Option(min=1, help="How many holdings to show, the worst first.")
    ] = 50,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Show how the holdings stand: exit 1 if one is overdue or quarantined, or an alert is open.

    Asks the running server, else reads the control plane's database; changes nothing. Needs no
    passphrase.

    Example: holdfast status --limit 10
    """
    from holdfast.control.database import opened  # noqa: PLC0415 - as in other commands
    from holdfast.control.service import milliseconds  # noqa: PLC0415
    from holdfast.control.settings import read_control  # noqa: PLC0415
    from holdfast.control.status import Status, read_status  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    settings = read_control(folder)
    found = told(folder, Status, "status", limit=limit) if limit <= MOST_ROWS else None
    if found is None:
        with opened(settings.address(folder), read_only=True) as engine:
            grace = settings.alerts.overdue
            found = read_status(engine, milliseconds(), grace=grace, limit=limit)
    if as_json:
        terminal.print_json(asdict(found) | {"fine": found.fine})
    else:
        _tell(found)
    return 0 if found.fine else 1


def _tell(found: "Status") -> None:
    from holdfast.evidence.story import span, when  # noqa: PLC0415 - as above

    def line(each: "HoldingStatus") -> tuple[str, ...]:
        last = "never" if each.audited is None else f"{each.outcome} {_ago(found, each.audited)}"
        due = "-" if each.due is None else _ahead(found, each.due)
        return each.holding, each.health, last, due, str(each.audits), str(each.blocks)

    titles = ("holding", "health", "last audit", "next", "audits", "blocks")
    if found.worst:
        for row in _columns([titles, *map(line, found.worst)]):
            say(row)
    if found.holdings > len(found.worst):
        say(f"and {found.holdings - len(found.worst)} holdings more")
    say(f"{found.holdings} holdings, {found.overdue} overdue, {found.quarantined} quarantined")
    say(
        f"evidence: {found.evidence} leaves; checkpoint: {_head(found, found.checkpoint)}; "
        f"anchor: {_head(found, found.anchor)}"
    )
    for alias, each in found.policies.items():
        say(f"{alias}: {each.name} ({each.version[:12]})")
    for alert in found.alerts:
        since = f"since {when(alert.raised)}, {span(found.at - alert.raised)}"
        say(f"ALERT {alert.kind}: {alert.subject}: {alert.detail} ({since})")


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines whose cells stand below each other."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _head(found: "Status", head: "Head | None") -> str:
    return "none yet" if head is None else f"{head.leaves} leaves, {_ago(found, head.signed)}"


def _ago(found: "Status", moment: int) -> str:
    from holdfast.evidence.story import span  # noqa: PLC0415 - as above

    return f"{span(found.at - moment)} ago"


def _ahead(found: "Status", moment: int) -> str:
    from holdfast.evidence.story import span  # noqa: PLC0415 - as above

    return f"in {span(moment - found.at)}" if moment > found.at else "now"
