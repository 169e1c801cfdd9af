"""The fleet at a glance: health, what is due, recent audits."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.control.policies.aliases import Named, named_aliases
from holdfast.control.queries.daily import Day
from holdfast.control.queries.fleet import (
    Activity,
    EvidenceFigures,
    Health,
    Status,
    read_activity,
    read_figures,
    read_status,
)
from holdfast.web.context import RequestContext
from holdfast.web.pagination import Limit
from holdfast.web.services.daily_totals import MAX_DAYS

router = APIRouter(tags=["fleet"])

DayCount = Annotated[int, Query(ge=1, le=MAX_DAYS, description="How many, up to today.")]


@dataclass(frozen=True)
class Fleet:
    at: int
    fine: bool  # as in `holdfast status`
    holdings: int
    health: dict[Health, int]
    due_today: int  # within a day, as in `holdfast status`: late audits are among them
    waiting: int  # due, and no worker has them
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
def get_fleet(context: RequestContext, days: DayCount = 30) -> Fleet:
    with context.read() as connection:
        figures = read_figures(connection, context.clock(), grace=context.grace)
        policies = named_aliases(connection)
        totals = context.daily_totals.last(connection, days)
    return Fleet(
        at=figures.at,
        fine=figures.fine,
        holdings=figures.holdings,
        health=figures.health,
        due_today=figures.due_today,
        waiting=figures.lag.overdue,
        lag=figures.lag.longest,
        working=figures.lag.working,
        quarantined=figures.lag.quarantined,
        alerts=figures.alerts,
        cases=figures.cases,
        evidence=figures.evidence,
        policies=policies,
        scenario=context.settings.scenario.name,
        days=totals,
    )


@router.get("/status", summary="What `holdfast status` shows")
def get_status(context: RequestContext, limit: Limit = 50) -> Status:
    with context.read() as connection:
        return read_status(connection, context.clock(), grace=context.grace, limit=limit)


@router.get("/activity", summary="Recent audits, as `holdfast status` shows them")
def get_activity(context: RequestContext, limit: Limit = 5) -> Activity:
    with context.read() as connection:
        return read_activity(connection, context.clock(), limit=limit)
