"""The plan: what each setting of the policy's dial spends and misses, and which keeps a limit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.web.context import RequestContext
from holdfast.web.services.baselines import EPISODES, Costs

router = APIRouter(tags=["plan"])

Share = Annotated[float, Query(ge=0, le=1, description="The miss rate to stay below.")]
Gas = Annotated[float, Query(ge=0, le=1e9, description="Gas a holding and day to stay below.")]


@dataclass(frozen=True)
class PlanTold:
    ready: bool  # ask again in a minute, if not
    scenario: str
    episodes: int  # for each setting
    settings: int  # that the dial has
    tried: list[Costs]
    frontier: list[Costs]  # those that no other beats in gas and misses, the cheapest first
    chosen: Costs | None  # the safest within the budget, or else the cheapest below the ceiling


@router.get("/plan", summary="The frontier of the dial, and the setting that keeps what is asked")
def plan(desk: RequestContext, ceiling: Share | None = None, budget: Gas | None = None) -> PlanTold:
    tried = desk.frontier.tried()
    frontier = tried.frontier
    notch = 0 if ceiling is None and budget is None else notch_of(frontier, ceiling, budget)
    return PlanTold(
        ready=tried.ready,
        scenario=desk.settings.scenario.name,
        episodes=EPISODES,
        settings=tried.settings,
        tried=list(tried.found),
        frontier=frontier,
        chosen=frontier[notch - 1] if notch else None,
    )


def notch_of(frontier: Sequence[Costs], ceiling: float | None, budget: float | None) -> int:
    """Return the notch that keeps the limits: the safest within a budget, or else the cheapest.

    It is 0 if there is none. A setting keeps a limit if the worse end of its interval does.
    """
    able = [
        at
        for at, each in enumerate(frontier, 1)
        if (ceiling is None or _worst(each.miss_rate.high) <= ceiling)
        and (budget is None or _worst(each.gas.high) <= budget)
    ]
    return 0 if not able else min(able) if budget is None else max(able)


def _worst(end: float | None) -> float:
    return math.inf if end is None else end
