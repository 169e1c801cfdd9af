"""`holdfast status`: the state of all holdings, whether the service runs or not."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from holdfast.cli.control import ControlPlane, open_control
from holdfast.cli.home import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, report, table
from holdfast.control.incidents.alerts import Alert
from holdfast.control.incidents.types import Kind
from holdfast.control.planning.check_costs import RAISE_BYTES, describe_shortfall
from holdfast.control.queries.coverage import WITHIN_DAYS, Coverage
from holdfast.control.queries.coverage_words import describe_bound, percent_down
from holdfast.control.queries.daily import CheckCosts
from holdfast.control.queries.fleet import (
    PAST_LOSS_DAYS,
    Activity,
    Head,
    Health,
    HoldingStatus,
    Status,
    read_activity,
    read_status,
)
from holdfast.control.running_services import is_service_running
from holdfast.control.scheduling.telemetry import LOSSES
from holdfast.evidence.leaf import Outcome
from holdfast.storage.database import transaction
from holdfast.words import ago, ahead, plural, size, span, when

RECENT_AUDITS = 5
REPAIR_ADVICE = re.compile(r"[;:] (?:to repair it|`holdfast repair)[^;]*")  # of no use afterwards


def status(
    limit: Annotated[
        int, typer.Option(min=1, help="How many holdings to show, the worst first.")
    ] = 50,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Show the state of all holdings: exit 1 if something's wrong.

    Something is wrong while a holding is overdue, quarantined, damaged, silent or under repair, or
    an alert is open. Changes nothing. Needs no passphrase.

    Example: holdfast status --limit 10
    """
    with open_control(home, read_only=True) as control, transaction(control.engine) as connection:
        grace = control.settings.alerts.overdue
        fleet = read_status(connection, control.now(), grace=grace, limit=limit)
        activity = read_activity(connection, fleet.at, limit=RECENT_AUDITS)
        service_runs = is_service_running(control.folder)
        notes = [*_service_notes(control, fleet, runs=service_runs), *_shortfalls(control, fleet)]
    data = asdict(fleet) | {"activity": asdict(activity)}
    data |= {"service_running": service_runs, "notes": notes}
    report(data, _describe(fleet, activity, notes), as_json=as_json)
    return 0 if fleet.fine else 1


def _service_notes(control: ControlPlane, fleet: Status, *, runs: bool) -> Iterator[str]:
    """Yield that nothing is audited while no service runs."""
    if fleet.holdings and not runs:
        is_shared = "://" in control.settings.address(control.folder)
        where = " on this machine" if is_shared else ""
        yield f"no service is running{where}: start holdfast serve"


def _shortfalls(control: ControlPlane, fleet: Status) -> Iterator[str]:
    """Yield which promises the bytes of a day can't keep."""
    for coverage in fleet.coverage:
        shortfall = describe_shortfall(
            coverage.bytes, coverage.verify_within, control.settings, whole=coverage.chosen_by_tool
        )
        if shortfall is not None:
            yield f"{coverage.holding}: {shortfall}: {RAISE_BYTES}"


def _describe(
    fleet: Status, activity: Activity, notes: Sequence[str] = ()
) -> Iterator[str | Table]:
    yield _verdict(fleet)
    yield from _alerts(fleet)
    yield from _past_losses(fleet)
    yield from _repairs(fleet)
    for hint in [*notes, *_hints(fleet)]:
        yield f"-> {hint}"
    yield ""
    if fleet.worst:
        titles = ("holding", "health", "last audit", "next", "audits>", "size>")
        yield table(titles, [_row(fleet, holding) for holding in fleet.worst])
    if fleet.holdings > len(fleet.worst):
        yield f"and {plural(fleet.holdings - len(fleet.worst), 'more holding')}"
    if fleet.coverage:
        yield ""
        days = (f"in {plural(days, 'day')}>" for days in WITHIN_DAYS)
        columns = ("verified", *days, "oldest", "to be verified within")
        yield table(columns, map(_coverage, fleet.coverage))
    yield ""
    yield table(("", ""), _recent(fleet, activity))
    heads = f"checkpoint: {_head(fleet, fleet.checkpoint)}; anchor: {_head(fleet, fleet.anchor)}"
    yield f"evidence: {_leaves(fleet.evidence)}; {heads}"
    for known in fleet.known_damage:
        yield f"confidence: {known.holding} is {known.describe()}"
    if fleet.confidence is not None and not fleet.known_damage:
        yield (
            f"confidence: at most {fleet.confidence.fleet_at_most:.2%} of all blocks damaged, "
            f"at 95 %, inferred {ago(fleet.confidence.at, fleet.at)}; see holdfast confidence"
        )
    for coverage in fleet.coverage:
        yield f"{coverage.holding}: {describe_bound(coverage, fleet.at)}"
    for alias, policy in fleet.policies.items():
        yield f"{alias}: {policy.name} ({policy.version[:12]})"


def _alerts(fleet: Status) -> Iterator[str]:
    """Yield a line for each alert; those about the loss of one holding share a line."""
    lines = defaultdict[tuple[str, str], list[Alert]](list)
    for alert in fleet.alerts:
        topic = "" if alert.kind in set(Kind) else alert.kind
        lines[topic, alert.subject].append(alert)
    for (_, subject), alerts in lines.items():
        kinds = ", ".join(alert.kind for alert in alerts)
        by_kind = {alert.kind: alert for alert in alerts}
        newest = by_kind.get(Kind.DAMAGED, alerts[0])  # which says what is lost
        raised = min(alert.raised for alert in alerts)
        since = f"since {when(raised)}, {span(fleet.at - raised)}"
        yield f"ALERT {kinds}: {subject}: {newest.detail} ({since})"


def _past_losses(fleet: Status) -> Iterator[str]:
    """Yield a line for each holding that had losses: the last one, and how many there were."""
    times = Counter(loss.subject for loss in fleet.past_losses)
    newest = {loss.subject: loss for loss in reversed(fleet.past_losses)}
    for name, count in times.items():
        loss = newest[name]
        often = f", the last of {count}" if count > 1 else ""
        over = ago(loss.ended or fleet.at, fleet.at)
        yield f"past loss: {name}: {REPAIR_ADVICE.sub('', loss.detail)} ({over}{often})"


def _repairs(fleet: Status) -> Iterator[str]:
    """Yield how far searches and repairs are, and what is lost unless an alert says it."""
    damaged = {alert.subject for alert in fleet.alerts if alert.kind == Kind.DAMAGED}
    for step in fleet.repairs:
        for loss in step.losses if step.name not in damaged else ():
            yield f"LOST {step.name}: {loss.describe()}"
        if step.progress is not None and step.ended is None:
            yield f"{step.step} {step.name}: {step.progress.text}"


def _verdict(fleet: Status) -> str:
    counts = {
        name: getattr(fleet, name) for name in ("overdue", "quarantined", "damaged", "silent")
    }
    counts |= {"under repair": max(fleet.cases - len(fleet.follow_ups), 0)}
    parts = [f"{count:,} {what}" for what, count in counts.items() if count]
    parts += [_follow_ups(fleet)] if fleet.follow_ups else []
    parts += [plural(len(fleet.alerts), "alert")] if fleet.alerts else []
    wrong = ", ".join(parts)
    return f"{plural(fleet.holdings, 'holding')}: {wrong or _well(fleet)}"


def _follow_ups(fleet: Status) -> str:
    """Say which holdings are audited again after they gave no proof in time."""
    first, count = fleet.follow_ups[0], len(fleet.follow_ups)
    others = f" and {count - 1} more" if count > 1 else ""
    return f"{count:,} under follow-up: {first.holding}{others}, next {ahead(first.due, fleet.at)}"


def _well(fleet: Status) -> str:
    losses = len(fleet.past_losses)
    past = f", after {plural(losses, 'loss', 'losses')} in {PAST_LOSS_DAYS} days" if losses else ""
    return f"all is well{past}"


def _hints(fleet: Status) -> Iterator[str]:
    """Yield what to do about what is wrong."""
    if not fleet.holdings:
        yield "put a file into a holding: holdfast holding add NAME URL, then holdfast put FILE"
    if fleet.overdue:
        yield "audits are late: if `holdfast serve` is running, give it more --workers"
    yield from _repair_hints(fleet)
    if fleet.quarantined:
        names = [row.holding for row in fleet.worst if row.health is Health.QUARANTINED]
        yield (
            "when a quarantined holding is whole again: "
            f"holdfast audit release {names[0] if len(names) == 1 else 'NAME'}"
        )
    checked = Counter(row.health for row in fleet.worst if row.kind is not None)
    if fleet.silent > checked[Health.SILENT]:
        yield from _silence_hints(fleet)
    for row in fleet.worst:
        if row.health is Health.SILENT and row.kind is not None:
            reason = row.reason or f"holdfast evidence show --holding {row.holding} shows why"
            yield f"the last check of {row.holding} could not say whether it is intact: {reason}"
    if any(alert.kind not in set(Kind) for alert in fleet.alerts):
        yield "holdfast doctor names faults and their cures"


def _silence_hints(fleet: Status) -> Iterator[str]:
    """Yield what to do about audits without a proof, by how the newest of them ended."""
    rows = [row for row in fleet.worst if row.health is Health.SILENT and row.kind is None]
    silent = {row.outcome: row.holding for row in reversed(rows)}
    if Outcome.OFFLINE in silent:
        yield "a node can't be reached: is it running? See holdfast doctor"
    if name := silent.get(Outcome.TIMED_OUT):
        yield (
            "a node took its challenge and gave no proof: "
            f"holdfast evidence show --holding {name} shows why"
        )
    if name := silent.get(Outcome.UNKNOWN):
        yield (
            "an audit could not be settled, which is not its node's fault: "
            f"holdfast evidence show --holding {name} shows why"
        )
    if not silent:
        yield "a node gave no proof: see holdfast doctor"


def _repair_hints(fleet: Status) -> Iterator[str]:
    """Yield how to repair each damaged holding. The service repairs those on nodes by itself."""
    damaged = [row for row in fleet.worst if row.outcome in LOSSES]
    on_nodes = [row.holding for row in damaged if row.kind is None and not row.direct]
    if not fleet.cases and (on_nodes or (fleet.damaged and not damaged)):
        name = on_nodes[0] if len(on_nodes) == 1 else "NAME"
        yield f"restore damaged blocks from a replica: holdfast repair {name}"
    for row in damaged:
        if row.direct:
            yield f"put back a copy of yours: holdfast repair {row.holding} --source FILE|FOLDER"
        elif row.kind is not None:
            yield f"holdfast repair {row.holding} shows what is damaged and how to repair it"


def _row(fleet: Status, holding: HoldingStatus) -> tuple[str, ...]:
    last = "never"
    if holding.audited is not None:
        last = f"{holding.outcome} {ago(holding.audited, fleet.at)}"
    due = "-" if holding.due is None else ahead(holding.due, fleet.at)
    figures = str(holding.audits), plural(holding.blocks, holding.unit)
    return holding.holding, str(holding.health), last, due, *figures


def _coverage(coverage: Coverage) -> tuple[str, ...]:
    shares = (percent_down(coverage.verified[days]) for days in WITHIN_DAYS)
    oldest = "-" if coverage.oldest is None else span(coverage.oldest)
    within = "-" if coverage.verify_within is None else span(coverage.verify_within)
    return coverage.holding, *shares, oldest, f"{within}, behind" if coverage.behind else within


def _recent(fleet: Status, activity: Activity) -> Iterator[tuple[str, str]]:
    for audit in activity.last:
        sampled = plural(audit.samples, audit.unit)
        what = f"audit {audit.number} of {audit.holding}, {sampled}: {audit.outcome}"
        yield ago(audit.ended, fleet.at), what
    for period in activity.periods:
        days = "last day" if period.days == 1 else f"last {period.days} days"
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in period.outcomes.items())
        yield days, f"{outcomes or 'no audits'}; {period.gas:,.0f} gas{_check_costs(period.checks)}"
    yield "next day", plural(activity.due, "audit is due", "audits are due")


def _check_costs(costs: CheckCosts) -> str:
    """Return what checks by tools read and how long they took, if there were any."""
    if not costs.checks:
        return ""
    read = f"{size(costs.read_bytes)} in {plural(costs.requests, 'request')}"
    return f"; {plural(costs.checks, 'check')} read {read} and took {span(costs.lasted)}"


def _head(fleet: Status, head: Head | None) -> str:
    return "none yet" if head is None else f"{_leaves(head.leaves)}, {ago(head.signed, fleet.at)}"


def _leaves(count: int) -> str:
    return plural(count, "leaf", "leaves")
