"""The fleet: how many holdings are how healthy, what is due, and what recent audits came to."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, case, exists, func, select

from holdfast.control.incidents.alerts import Alert
from holdfast.control.policies.aliases import Named, named_aliases
from holdfast.control.queries.confidence import (
    FleetConfidence,
    KnownDamage,
    list_known_damage,
    read_fleet_confidence,
)
from holdfast.control.queries.coverage import Coverage, list_coverage
from holdfast.control.queries.daily import CheckCosts, read_check_costs
from holdfast.control.queries.incidents import (
    CaseStep,
    FollowUp,
    list_alerts,
    list_follow_ups,
    list_past_losses,
    list_repairs,
    open_alert_count,
    open_case_count,
)
from holdfast.control.queries.names import name_of, unit_of
from holdfast.control.queries.nodes import Reachability, list_reachability
from holdfast.control.queries.reports import read_last_reason
from holdfast.control.scheduling.claims import Lag
from holdfast.control.scheduling.lag import lag_at
from holdfast.control.scheduling.telemetry import LOSSES
from holdfast.durations import DAY
from holdfast.evidence.leaf import Outcome
from holdfast.owner.direct.address import is_direct
from holdfast.storage.home_schema import catalogue, checked_holdings
from holdfast.storage.inference_schema import confidences
from holdfast.storage.schema import NEVER, audits, checkpoints, holdings, leaves, trees

PERIODS = (1, 30)  # days over which recent audits are summed
PAST_LOSS_DAYS = 30  # for which the status shows damage that was repaired


class Health(StrEnum):
    """How a holding is; the worst first."""

    OVERDUE = "overdue"
    QUARANTINED = "quarantined"
    DAMAGED = "damaged"  # its last audit showed a loss
    SILENT = "silent"  # its node gave no proof, or was not reachable
    NEW = "new"
    SOUND = "sound"


UNHEALTHY = (Health.OVERDUE, Health.QUARANTINED, Health.DAMAGED, Health.SILENT)


def is_fine(health: Mapping[Health, int], *, cases: int, alerts: int) -> bool:
    """Return whether no holding is unhealthy and no case or alert is open."""
    return not (cases or alerts or any(health[state] for state in UNHEALTHY))


def health_of(now: int, grace: int) -> ColumnElement[str]:
    """Return the expression for a holding's health.

    An audit is overdue when it is late by more than `grace` and no worker has it. So is a check
    that has waited for others for so long.
    """
    waits = (checked_holdings.c.waits > 0) & (checked_holdings.c.waits <= now - grace)
    held_up = exists().where(checked_holdings.c.scheduled == holdings.c.id, waits)
    overdue = ((holdings.c.due <= now - grace) & (holdings.c.lease <= now)) | (
        holdings.c.checked & held_up.correlate(holdings)
    )
    return case(
        (overdue, str(Health.OVERDUE)),
        (holdings.c.quarantined, str(Health.QUARANTINED)),
        (holdings.c.outcome.in_(LOSSES), str(Health.DAMAGED)),
        (holdings.c.outcome.is_(None), str(Health.NEW)),
        (holdings.c.outcome != Outcome.PASSED, str(Health.SILENT)),
        else_=str(Health.SOUND),
    )


def worst_first(health: ColumnElement[str]) -> list[ColumnElement[Any]]:
    """Return the expressions by which holdings are sorted: by health, then by the bound on damage.

    The query must join `confidences`; a holding without a bound comes after those with one.
    """
    rank = case({str(state): rank for rank, state in enumerate(Health)}, value=health)
    return [rank, bound_on_damage().desc(), holdings.c.due, holdings.c.id]


def bound_on_damage() -> ColumnElement[float]:
    return func.coalesce(confidences.c.at_most, -1.0)


@dataclass(frozen=True)
class EvidenceFigures:
    leaves: int  # in the tree
    waiting: int  # without a place in the tree yet
    anchored: int


@dataclass(frozen=True)
class FleetFigures:
    """The fleet at one moment."""

    at: int
    holdings: int
    health: dict[Health, int]
    failed: int  # holdings whose last audit showed a loss; quarantined ones are left out
    unanswered: int  # holdings whose last audit got no proof; quarantined ones are left out
    due_today: int  # within a day; late audits are among them, quarantined holdings aren't
    lag: Lag
    cases: int  # holdings with a response under way
    alerts: int  # open ones
    evidence: EvidenceFigures

    @property
    def fine(self) -> bool:
        return is_fine(self.health, cases=self.cases, alerts=self.alerts)


def read_figures(connection: Connection, now: int, *, grace: int) -> FleetFigures:
    """Return the fleet's figures: one pass over the holdings, one look at the rest."""
    listed, outcome = ~holdings.c.quarantined, holdings.c.outcome
    silent = outcome.not_in([Outcome.PASSED, *LOSSES])
    by_health = select(
        health_of(now, grace).label("health"),
        func.count().label("holdings"),
        func.count(case((listed & outcome.in_(LOSSES), 1))).label("failed"),
        func.count(case((listed & silent, 1))).label("unanswered"),
        func.count(case((listed & (holdings.c.due <= now + DAY), 1))).label("due_today"),
        *lag_at(now),
    ).group_by("health")
    rows = connection.execute(by_health).all()
    health = dict.fromkeys(Health, 0) | {Health(row.health): row.holdings for row in rows}
    first = min((row.first for row in rows if row.first is not None), default=now)
    columns = ("failed", "unanswered", "due_today", "overdue", "working", "quarantined")
    sums = {name: sum(getattr(row, name) for row in rows) for name in columns}
    rest = connection.execute(_rest()).one()
    return FleetFigures(
        at=now,
        holdings=sum(health.values()),
        health=health,
        failed=sums["failed"],
        unanswered=sums["unanswered"],
        due_today=sums["due_today"],
        lag=Lag(sums["overdue"], now - first, sums["working"], sums["quarantined"]),
        cases=rest.cases,
        alerts=rest.alerts,
        evidence=EvidenceFigures(rest.leaves or 0, rest.waiting, rest.anchored or 0),
    )


def _rest() -> Select[Any]:
    """Return the query for the figures that no holding has."""
    unplaced = select(func.count()).where(leaves.c.place.is_(None))
    anchored = select(func.max(checkpoints.c.size)).where(checkpoints.c.anchored)
    return select(
        open_case_count().scalar_subquery().label("cases"),
        open_alert_count().scalar_subquery().label("alerts"),
        select(func.max(trees.c.size)).scalar_subquery().label("leaves"),
        unplaced.scalar_subquery().label("waiting"),
        anchored.scalar_subquery().label("anchored"),
    )


@dataclass(frozen=True)
class HoldingStatus:
    holding: str
    health: Health
    kind: str | None  # of the auditor, if a tool checks it
    unit: str  # what is sampled
    blocks: int  # or other units
    audits: int
    outcome: str | None  # of the last audit
    audited: int | None  # when that was
    due: int | None
    direct: bool = False  # whether it is audited without a node
    reason: str | None = None  # of a check that could not say whether its storage is intact


@dataclass(frozen=True)
class Head:
    """A signed head of the evidence: its size and when it was signed."""

    leaves: int
    signed: int


@dataclass(frozen=True)
class Status:
    """What `holdfast status` shows."""

    at: int
    holdings: int
    fine: bool
    overdue: int
    quarantined: int
    damaged: int  # of the rest
    silent: int
    cases: int  # holdings with a response under way
    worst: tuple[HoldingStatus, ...]  # those that need attention first
    evidence: int
    checkpoint: Head | None
    anchor: Head | None
    policies: dict[str, Named]  # by their aliases
    alerts: tuple[Alert, ...]
    past_losses: tuple[Alert, ...]  # damage of the last days whose alert has ended
    nodes: tuple[Reachability, ...]  # those that were unreachable for longest
    confidence: FleetConfidence | None  # none until it is inferred
    repairs: tuple[CaseStep, ...]  # blocks that are searched or repaired, or were lost
    coverage: tuple[Coverage, ...]  # storage without a node: what was read, what may be damaged
    known_damage: tuple[KnownDamage, ...] = ()  # of holdings with proofs
    follow_ups: tuple[FollowUp, ...] = ()  # cases in which nothing is repaired


def read_status(connection: Connection, now: int, *, grace: int, limit: int) -> Status:
    """Return the status; an audit is overdue when it is late by more than `grace`."""
    figures = read_figures(connection, now, grace=grace)
    newest = select(checkpoints.c.size, checkpoints.c.signed).order_by(checkpoints.c.id.desc())
    head = connection.execute(newest.limit(1)).first()
    anchor = connection.execute(newest.where(checkpoints.c.anchored).limit(1)).first()
    return Status(
        at=now,
        holdings=figures.holdings,
        fine=figures.fine,
        overdue=figures.health[Health.OVERDUE],
        quarantined=figures.health[Health.QUARANTINED],
        damaged=figures.health[Health.DAMAGED],
        silent=figures.health[Health.SILENT],
        cases=figures.cases,
        worst=_worst(connection, now, grace, limit),
        evidence=figures.evidence.leaves + figures.evidence.waiting,
        checkpoint=None if head is None else Head(*head),
        anchor=None if anchor is None else Head(*anchor),
        policies=named_aliases(connection),
        alerts=tuple(list_alerts(connection).alerts),
        past_losses=tuple(list_past_losses(connection, now - PAST_LOSS_DAYS * DAY)),
        nodes=tuple(list_reachability(connection, now, limit=limit)),
        confidence=read_fleet_confidence(connection),
        repairs=tuple(list_repairs(connection)),
        coverage=tuple(list_coverage(connection, now, limit=limit)),
        known_damage=tuple(list_known_damage(connection, limit)),
        follow_ups=tuple(list_follow_ups(connection)),
    )


def _worst(connection: Connection, now: int, grace: int, limit: int) -> tuple[HoldingStatus, ...]:
    health = health_of(now, grace)
    columns = ("id", "name", "blocks", "number", "audited", "due", "quarantined", "outcome")
    query = (
        select(*(holdings.c[name] for name in columns), health.label("health"))
        .add_columns(checked_holdings.c.kind, unit_of(holdings.c.checked).label("unit"))
        .add_columns(catalogue.c.url)
        .outerjoin(catalogue, catalogue.c.scheduled == holdings.c.id)
        .outerjoin(confidences, confidences.c.holding == holdings.c.id)
        .outerjoin(checked_holdings, checked_holdings.c.scheduled == holdings.c.id)
        .order_by(*worst_first(health))
        .limit(limit)
    )
    return tuple(
        HoldingStatus(
            row.name,
            Health(row.health),
            row.kind,
            row.unit,
            row.blocks,
            row.number,
            row.outcome,
            row.audited if row.number else None,
            None if row.quarantined else row.due,
            direct=row.url is not None and is_direct(row.url),
            reason=_unknown_reason(connection, row),
        )
        for row in connection.execute(query).all()
    )


def _unknown_reason(connection: Connection, row: Row[Any]) -> str | None:
    if row.kind is None or row.health != Health.SILENT:
        return None
    return read_last_reason(connection, row.id)


def last_outcomes(connection: Connection) -> dict[str, str]:
    """Return how the last audit of each holding ended, by the holding's name."""
    query = select(holdings.c.name, holdings.c.outcome).where(holdings.c.outcome.is_not(None))
    return {row.name: row.outcome for row in connection.execute(query)}


@dataclass(frozen=True)
class Period:
    """The audits of the last days by outcome, and their gas."""

    days: int
    outcomes: dict[str, int]
    gas: float
    checks: CheckCosts


@dataclass(frozen=True)
class Ended:
    """An audit that ended."""

    holding: str
    number: int
    outcome: str
    ended: int
    samples: int
    unit: str


@dataclass(frozen=True)
class Activity:
    due: int  # within a day, as `FleetFigures.due_today`
    last: tuple[Ended, ...]  # the newest first
    periods: tuple[Period, ...]


def read_activity(connection: Connection, now: int, *, limit: int) -> Activity:
    """Return the last audits, what recent ones came to, and how many are due."""
    soon = (holdings.c.due <= now + DAY) & ~holdings.c.quarantined
    due = connection.execute(select(func.count()).where(soon)).scalar_one()
    columns = (audits.c.number, audits.c.outcome, audits.c.ended, audits.c.samples)
    newest = (
        select(name_of(audits.c.holding), *columns, unit_of(audits.c.checked))
        .outerjoin(checked_holdings, checked_holdings.c.scheduled == audits.c.holding)
        .order_by(audits.c.ended.desc(), audits.c.id.desc())
        .limit(limit)
    )
    last = tuple(Ended(*row) for row in connection.execute(newest))
    return Activity(due, last, tuple(_period(connection, now, days) for days in PERIODS))


def _period(connection: Connection, now: int, days: int) -> Period:
    query = (
        select(audits.c.outcome, func.count(), func.sum(audits.c.gas))
        .where(audits.c.ended > now - days * DAY)
        .group_by(audits.c.outcome)
        .order_by(audits.c.outcome)
    )
    rows = connection.execute(query).all()
    outcomes = {outcome: count for outcome, count, _ in rows}
    gas = sum((gas for *_, gas in rows), 0.0)
    return Period(days, outcomes, gas, read_check_costs(connection, now - days * DAY + 1, NEVER))
