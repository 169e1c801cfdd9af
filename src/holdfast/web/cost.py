"""What audits cost day by day, and what the same world would cost under other rules."""

from dataclasses import dataclass

from fastapi import APIRouter

from holdfast.web.days import Day
from holdfast.web.desk import AtDesk
from holdfast.web.fleet import DayCount
from holdfast.web.rules import EPISODES, Costs

router = APIRouter(tags=["cost"])


@dataclass(frozen=True)
class Compared:
    ready: bool  # ask again in some seconds, if not
    scenario: str
    episodes: int
    policies: list[Costs]  # the one that decides first


@router.get("/cost", summary="What audits cost, day by day")
def cost(desk: AtDesk, days: DayCount = 30) -> list[Day]:
    return desk.days.last(days)


@router.get("/cost/rules", summary="What the same world would cost under other rules")
def rules(desk: AtDesk) -> Compared:
    found = desk.rules.found()
    name = desk.settings.scenario.name
    return Compared(found is not None, name, EPISODES, found or [])
