"""What audits cost day by day, and what the same world would cost under other rules."""

from dataclasses import dataclass

from fastapi import APIRouter

from holdfast.web.api.fleet import DayCount
from holdfast.web.context import RequestContext
from holdfast.web.services.baselines import EPISODES, Costs
from holdfast.web.services.daily_totals import Day

router = APIRouter(tags=["cost"])


@dataclass(frozen=True)
class Compared:
    ready: bool  # ask again in some seconds, if not
    scenario: str
    episodes: int
    policies: list[Costs]  # the one that decides first


@router.get("/cost", summary="What audits cost, day by day")
def cost(desk: RequestContext, days: DayCount = 30) -> list[Day]:
    return desk.days.last(days)


@router.get("/cost/rules", summary="What the same world would cost under other rules")
def rules(desk: RequestContext) -> Compared:
    found = desk.rules.found()
    name = desk.settings.scenario.name
    return Compared(found is not None, name, EPISODES, found or [])
