"""The plan: the dial turned from cheap to safe, what each notch costs and misses, and the frontier.

`holdfast plan` tries a setting once more on fresh episodes, and sets it.
"""

import math
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.web.api.plan import notch_of
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.pages.chart import Plane, Point
from holdfast.web.pages.page import AsVisitor, view
from holdfast.web.pages.words import amount, percent
from holdfast.web.services.baselines import Costs

router = view()

Field = Annotated[str, Query(max_length=20)]  # an empty one asks for nothing


@router.get("/plan")
def page(
    visit: AsVisitor,
    notch: Annotated[int, Query(ge=0, le=1000)] = 0,
    ceiling: Field = "",
    budget: Field = "",
) -> HTMLResponse:
    tried = visit.desk.frontier.tried()
    frontier = tried.frontier
    limits = (_number("ceiling", ceiling, 100), _number("budget", budget))
    if any(limit is not None for limit in limits):
        notch = notch_of(frontier, *limits)
    elif not 1 <= notch <= len(frontier):
        notch = math.ceil(len(frontier) / 2)
    beside = visit.desk.rules.found() or []
    rules = [each for each in beside[1:] if each.miss_rate.value is not None]
    chosen = frontier[notch - 1] if notch else None
    return visit.show(
        "plan.html",
        "/plan",
        tried=tried,
        frontier=frontier,
        early=visit.desk.settings.rails.audits_per_interval,
        notch=notch,
        chosen=chosen,
        rules=rules,
        waiting=not tried.ready or not beside,
        chart=plane(tried.found, frontier, rules, chosen) if len(frontier) > 1 else None,
        ceiling=ceiling,
        budget=budget,
        scenario=visit.desk.settings.scenario.name,
    )


def plane(
    tried: Sequence[Costs], frontier: Sequence[Costs], rules: Sequence[Costs], chosen: Costs | None
) -> Plane:
    """Draw gas along a scale of powers, and misses up."""
    spots = [
        *((each, "tone-9") for each in rules),
        *((each, "tone-0") for each in tried if each.miss_rate.value is not None),
        *([] if chosen is None else [(chosen, "chosen-spot")]),
    ]
    gas = [each.gas.value or 1e-9 for each, _ in spots]
    low, high = min(gas) / 1.2, max(gas) * 1.2
    most = max(each.miss_rate.value or 0.0 for each, _ in spots)
    line: list[tuple[float, float]] = []
    for each in frontier:
        place = (each.gas.value or 1e-9, each.miss_rate.value or 0.0)
        line += [(place[0], line[-1][1]), place] if line else [place]
    rungs = [at / 5 for at in range(math.ceil(most * 5) + 1)]
    return Plane(
        title="Gas and misses of each setting: lower left is better",
        points=[
            Point(each.gas.value or 1e-9, each.miss_rate.value or 0.0, kind, _said(each))
            for each, kind in spots
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


def _said(each: Costs) -> str:
    misses, gas = each.miss_rate.value or 0.0, each.gas.value or 0.0
    return f"{each.policy}: gas {amount(gas)}, misses {percent(misses)}"


def _number(name: str, field: str, over: float = 1.0) -> float | None:
    """Return what a field holds, if it holds anything."""
    if not field:
        return None
    try:
        found = float(field) / over
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise WebRefusedError(Code.MALFORMED, f"the {name} must be a number, and not below 0")
    return found
