"""The fleet at a glance: how many holdings are how well, what is due, what audits came to."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import func, select

from holdfast.control.policies.aliases import Named, named_aliases
from holdfast.control.prometheus import figures
from holdfast.control.queries.activity import Activity, count_due, read_activity
from holdfast.control.queries.status import Health, Status, all_fine, health_of, read_status
from holdfast.control.scheduling.schedule import Lag, Schedule, lag_at
from holdfast.storage.database import transaction
from holdfast.storage.schema import holdings
from holdfast.web.context import Context, RequestContext
from holdfast.web.pagination import Limit
from holdfast.web.services.daily_totals import MOST_DAYS, Day

router = APIRouter(tags=["fleet"])

DayCount = Annotated[int, Query(ge=1, le=MOST_DAYS, description="How many, up to today.")]


@dataclass(frozen=True)
class EvidenceFigures:
    leaves: int
    waiting: int  # without a place in the tree yet
    anchored: int


@dataclass(frozen=True)
class Fleet:
    at: int
    fine: bool  # as `holdfast status` has it
    holdings: int
    health: dict[Health, int]
    due_today: int  # within a day, as `holdfast status` counts: late audits are among them
    waiting: int  # due, with nobody at work on them
    lag: int  # milliseconds since the first of those was due
    working: int
    quarantined: int
    alerts: int  # open ones
    cases: int  # holdings with a response under way
    evidence: EvidenceFigures
    policies: dict[str, Named]  # by their aliases
    scenario: str
    days: list[Day]


@router.get("/fleet", summary="The fleet at a glance")
def fleet(desk: RequestContext, days: DayCount = 30) -> Fleet:
    now = desk.clock()
    health, lag = _health(desk, now)
    found = figures(Schedule(desk.reader))
    with transaction(desk.reader) as connection:
        due_today = count_due(connection, now)
    return Fleet(
        at=now,
        fine=all_fine(health, cases=found.responses, alerts=found.alerts),
        holdings=found.holdings,
        health=health,
        due_today=due_today,
        waiting=lag.overdue,
        lag=lag.longest,
        working=lag.working,
        quarantined=lag.quarantined,
        alerts=found.alerts,
        cases=found.responses,
        evidence=EvidenceFigures(found.evidence, found.unsequenced, found.anchored),
        policies=named_aliases(desk.reader),
        scenario=desk.settings.scenario.name,
        days=desk.days.last(days),
    )


@router.get("/status", summary="What `holdfast status` shows")
def status(desk: RequestContext, limit: Limit = 50) -> Status:
    grace = desk.settings.alerts.overdue
    return read_status(desk.reader, desk.clock(), grace=grace, limit=limit)


@router.get("/activity", summary="What audits there were of late, as `holdfast status` shows it")
def activity(desk: RequestContext, limit: Limit = 5) -> Activity:
    return read_activity(desk.reader, desk.clock(), limit=limit)


@router.get("/rails", summary="How often which rail changed an audit, day by day")
def rails(desk: RequestContext, days: DayCount = 30) -> list[Day]:
    return desk.days.last(days)


def _health(desk: Context, now: int) -> tuple[dict[Health, int], Lag]:
    """Return how many holdings are how well, and how far behind the schedule is: by one look."""
    state = health_of(now, desk.settings.alerts.overdue)
    query = select(state.label("health"), func.count().label("times"), *lag_at(now))
    rows = desk.rows(query.select_from(holdings).group_by("health"))
    found = {row.health: row.times for row in rows}
    first = min((row.first for row in rows if row.first is not None), default=now)
    overdue, working, quarantined = (
        sum(getattr(row, name) for row in rows) for name in ("overdue", "working", "quarantined")
    )
    return (
        {each: found.get(str(each), 0) for each in Health},
        Lag(overdue, now - first, working, quarantined),
    )
