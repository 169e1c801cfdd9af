"""The plan page: the dial from cheap to safe, what each notch costs and misses, the frontier."""

import math
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.control.policies.aliases import read_aliases
from holdfast.errors import InputError
from holdfast.web.pages.chart import Plane, Point
from holdfast.web.pages.page import AsVisitor, page_router
from holdfast.web.pages.words import amount, percent
from holdfast.web.services.baselines import Costs
from holdfast.web.services.dial_sweep import notch_of

router = page_router()

Field = Annotated[str, Query(max_length=20)]  # an empty one asks for nothing


@router.get("/plan")
def show_plan(
    visit: AsVisitor,
    notch: Annotated[int, Query(ge=0, le=1000)] = 0,
    ceiling: Field = "",
    budget: Field = "",
) -> HTMLResponse:
    context = visit.context
    with visit.read() as connection:
        champion = read_aliases(connection).champion
    decider = context.champion.find(champion)
    sweep = context.dial_sweep.progress(decider)
    frontier = sweep.frontier
    limits = (_number("ceiling", ceiling, 100), _number("budget", budget))
    if any(limit is not None for limit in limits):
        notch = notch_of(frontier, *limits)
    elif not 1 <= notch <= len(frontier):
        notch = math.ceil(len(frontier) / 2)
    baselines = context.baselines.compare(decider)
    rules = [costs for costs in baselines.policies[1:] if costs.miss_rate.value is not None]
    chosen = frontier[notch - 1] if notch else None
    return visit.show(
        "plan.html",
        "/plan",
        sweep=sweep,
        frontier=frontier,
        early=context.settings.rails.audits_per_interval,
        notch=notch,
        chosen=chosen,
        rules=rules,
        waiting=not sweep.ready or not baselines.ready,
        chart=frontier_chart(sweep.tried, frontier, rules, chosen) if len(frontier) > 1 else None,
        ceiling=ceiling,
        budget=budget,
        scenario=context.settings.scenario.name,
    )


def frontier_chart(
    tried: Sequence[Costs], frontier: Sequence[Costs], rules: Sequence[Costs], chosen: Costs | None
) -> Plane:
    """Draw gas along a scale of powers, and misses up."""
    spots = [
        *((costs, "tone-9") for costs in rules),
        *((costs, "tone-0") for costs in tried if costs.miss_rate.value is not None),
        *([] if chosen is None else [(chosen, "chosen-spot")]),
    ]
    gas = [costs.gas.value or 1e-9 for costs, _ in spots]
    low, high = min(gas) / 1.2, max(gas) * 1.2
    most = max(costs.miss_rate.value or 0.0 for costs, _ in spots)
    line: list[tuple[float, float]] = []
    for costs in frontier:
        point = (costs.gas.value or 1e-9, costs.miss_rate.value or 0.0)
        line += [(point[0], line[-1][1]), point] if line else [point]
    rungs = [at / 5 for at in range(math.ceil(most * 5) + 1)]
    return Plane(
        title="Gas and misses of each setting: lower left is better",
        points=[
            Point(costs.gas.value or 1e-9, costs.miss_rate.value or 0.0, kind, _title(costs))
            for costs, kind in spots
        ],
        x_marks=[(mark, amount(mark)) for mark in _powers(low, high)],
        y_marks=[(rung, percent(rung)) for rung in rungs],
        line=line,
        log=True,
        x_range=(low, high),
    )


def _powers(low: float, high: float) -> list[float]:
    """Return round marks in between."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]
    return [mark for mark in marks if low <= mark <= high]


def _title(costs: Costs) -> str:
    misses, gas = costs.miss_rate.value or 0.0, costs.gas.value or 0.0
    return f"{costs.policy}: gas {amount(gas)}, misses {percent(misses)}"


def _number(name: str, field: str, over: float = 1.0) -> float | None:
    """Return what a field holds, if it holds anything."""
    if not field:
        return None
    try:
        number = float(field) / over
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise InputError(f"the {name} must be a number, and not below 0")
    return number
