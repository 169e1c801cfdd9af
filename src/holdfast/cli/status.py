"""`holdfast status`: how all holdings stand, whether a service runs or not."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.server import MOST_ROWS, told
from holdfast.cli.terminal import Json, say

if TYPE_CHECKING:
    from holdfast.control.queries.fleet import Activity, Head, HoldingStatus, Status

LAST = 5  # audits


def status(
    limit: Annotated[
        int, typer.Option(min=1, help="How many holdings to show, the worst first.")
    ] = 50,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Show how the holdings stand: exit 1 unless all is well.

    It is not well while a holding is overdue, quarantined, damaged, silent or under repair, or an
    alert is open.

    Asks the running server, else reads the control plane's database; changes nothing. Needs no
    passphrase.

    Example: holdfast status --limit 10
    """
    from holdfast.control.queries.fleet import (  # noqa: PLC0415 - as the others
        Activity,
        Status,
        read_activity,
        read_status,
    )
    from holdfast.control.service import milliseconds  # noqa: PLC0415
    from holdfast.control.settings.models import read_control  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415
    from holdfast.storage.database import opened, transaction  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    settings = read_control(folder)
    found = told(folder, Status, "status", limit=limit) if limit <= MOST_ROWS else None
    activity = told(folder, Activity, "activity", limit=LAST) if found is not None else None
    if found is None or activity is None:
        address, grace = settings.address(folder), settings.alerts.overdue
        with opened(address, read_only=True) as engine, transaction(engine) as connection:
            found = read_status(connection, milliseconds(), grace=grace, limit=limit)
            activity = read_activity(connection, found.at, limit=LAST)
    if as_json:
        terminal.print_json(asdict(found) | {"activity": asdict(activity)})
    else:
        _tell(found, activity)
    return 0 if found.fine else 1


def _tell(found: "Status", activity: "Activity") -> None:
    from holdfast.evidence.explain import span, when  # noqa: PLC0415 - as above

    say(_verdict(found))
    for alert in found.alerts:
        since = f"since {when(alert.raised)}, {span(found.at - alert.raised)}"
        say(f"ALERT {alert.kind}: {alert.subject}: {alert.detail} ({since})")
    for hint in _hints(found):
        say(f"-> {hint}")
    say("")

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
    say("")
    for row in _columns(list(_recent(found, activity))):
        say(row)
    say(
        f"evidence: {found.evidence} leaves; checkpoint: {_head(found, found.checkpoint)}; "
        f"anchor: {_head(found, found.anchor)}"
    )
    for alias, each in found.policies.items():
        say(f"{alias}: {each.name} ({each.version[:12]})")


def _verdict(found: "Status") -> str:
    counts = {
        name: getattr(found, name) for name in ("overdue", "quarantined", "damaged", "silent")
    }
    counts |= {"under repair": found.cases}
    counts["alert" if len(found.alerts) == 1 else "alerts"] = len(found.alerts)
    wrong = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{found.holdings} holdings: {wrong or 'all is well'}"


def _hints(found: "Status") -> Iterator[str]:
    """Say what to do about what is wrong."""
    if not found.holdings:
        yield "put a file into a holding: holdfast holding add NAME URL, then holdfast put FILE"
    if found.overdue:
        yield "is `holdfast serve` at work? If it is, give it more --workers; see holdfast doctor"
    if found.quarantined:
        yield "repair what is quarantined, then: holdfast audit release NAME"
    if found.damaged and not found.cases:
        yield "put damaged blocks back from a replica: holdfast repair NAME"
    if found.silent:
        yield "a node gave no proof or was not reached: is it running? See holdfast doctor"
    if found.alerts:
        yield "holdfast doctor names faults and their cures"


def _recent(found: "Status", activity: "Activity") -> Iterator[tuple[str, str]]:
    for each in activity.last:
        what = f"audit {each.number} of {each.holding}, {each.samples} blocks: {each.outcome}"
        yield _ago(found, each.ended), what
    for period in activity.periods:
        days = "last day" if period.days == 1 else f"last {period.days} days"
        told = ", ".join(f"{count} {outcome}" for outcome, count in period.outcomes.items())
        yield days, f"{told or 'no audits'}; {period.gas:,.0f} gas"
    yield "next day", f"{activity.due} audits are due"


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
    from holdfast.evidence.explain import span  # noqa: PLC0415 - as above

    return f"{span(found.at - moment)} ago"


def _ahead(found: "Status", moment: int) -> str:
    from holdfast.evidence.explain import span  # noqa: PLC0415 - as above

    return f"in {span(moment - found.at)}" if moment > found.at else "now"
