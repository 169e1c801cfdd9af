"""What audits cost day by day, and what the same world would cost under simple rules."""

from fastapi import APIRouter

from holdfast.control.planning.check_costs import CheckForecast, forecast_checks
from holdfast.control.policies.aliases import read_aliases
from holdfast.control.queries.daily import Day
from holdfast.web.api.fleet import DayCount
from holdfast.web.context import RequestContext
from holdfast.web.services.baselines import Comparison

router = APIRouter(tags=["cost"])


@router.get("/cost", summary="Audits, outcomes, overrides and gas, day by day")
def get_cost(context: RequestContext, days: DayCount = 30) -> list[Day]:
    with context.read() as connection:
        return context.daily_totals.last(connection, days)


@router.get("/cost/checks", summary="What checks by tools cost in a month, each by itself")
def get_check_costs(context: RequestContext) -> list[CheckForecast]:
    with context.read() as connection:
        return forecast_checks(connection, context.settings, context.clock())


@router.get("/cost/rules", summary="What the same world would cost under other rules")
def get_rules(context: RequestContext) -> Comparison:
    with context.read() as connection:
        champion = read_aliases(connection).champion
    return context.baselines.compare(context.champion.find(champion))
