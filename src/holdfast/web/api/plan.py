"""The plan: what each setting of the policy's dial spends and misses, and which keeps a limit."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.control.policies.aliases import read_aliases
from holdfast.web.context import RequestContext
from holdfast.web.services.baselines import EPISODES, Costs
from holdfast.web.services.dial_sweep import notch_of

router = APIRouter(tags=["plan"])

Share = Annotated[float, Query(ge=0, le=1, description="The miss rate to stay below.")]
Gas = Annotated[float, Query(ge=0, le=1e9, description="Gas per holding and day to stay below.")]


@dataclass(frozen=True)
class Plan:
    ready: bool  # ask again in a minute, if not
    scenario: str
    episodes: int  # for each setting
    settings: int  # that the dial has
    tried: list[Costs]
    frontier: list[Costs]  # those that no other beats in gas and misses, the cheapest first
    chosen: Costs | None  # the safest within the budget, or else the cheapest below the ceiling


@router.get("/plan", summary="The frontier of the dial, and the setting that keeps a limit")
def get_plan(
    context: RequestContext, ceiling: Share | None = None, budget: Gas | None = None
) -> Plan:
    with context.read() as connection:
        champion = read_aliases(connection).champion
    sweep = context.dial_sweep.progress(context.champion.find(champion))
    frontier = sweep.frontier
    notch = 0 if ceiling is None and budget is None else notch_of(frontier, ceiling, budget)
    return Plan(
        ready=sweep.ready,
        scenario=context.settings.scenario.name,
        episodes=EPISODES,
        settings=sweep.settings,
        tried=list(sweep.tried),
        frontier=frontier,
        chosen=frontier[notch - 1] if notch else None,
    )
