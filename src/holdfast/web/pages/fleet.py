"""The fleet page: the fleet's state in a sentence and in figures, audits per day, every holding."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.control.queries.daily import Day
from holdfast.control.queries.fleet import UNHEALTHY, Health, read_figures
from holdfast.control.queries.holdings import HoldingFilter, Sort, list_holdings
from holdfast.evidence.leaf import Outcome
from holdfast.web.pages import words
from holdfast.web.pages.chart import Columns, Series
from holdfast.web.pages.page import AsVisitor, page_router
from holdfast.web.pagination import MAX_SEARCH_LENGTH, Page

router = page_router()

DAYS = 30
ROWS = 50


@router.get("/")
def show_fleet(
    visit: AsVisitor,
    health: Health | Literal[""] = "",  # a form that asks for all of them sends this
    search: Annotated[str, Query(max_length=MAX_SEARCH_LENGTH)] = "",
    sort: Sort = Sort.HEALTH,
    page: Page = 1,
) -> HTMLResponse:
    printable = "".join(character for character in search if character.isprintable())
    wanted = HoldingFilter((Health(health),) if health else (), printable, sort)
    context, as_of = visit.context, visit.context.as_of_now()
    with visit.read() as connection:
        figures = read_figures(connection, as_of.now, grace=as_of.grace)
        holdings = list_holdings(connection, as_of, wanted, page=page, limit=ROWS)
        days = context.daily_totals.last(connection, DAYS)
    return visit.show(
        "fleet.html",
        "/",
        fleet=figures,
        headline=headline(figures.health, cases=figures.cases, alerts=figures.alerts),
        chart=outcome_chart(days),
        page=holdings,
        health=Health(health) if health else None,
        search=printable,
        sort=sort,
        sorts=list(Sort),
    )


def headline(health: Mapping[Health, int], *, cases: int = 0, alerts: int = 0) -> str:
    """Return one sentence on the fleet's health."""
    total = sum(health.values())
    if not total:
        return "No holding is on the schedule yet."
    unhealthy = sum(health[state] for state in UNHEALTHY)
    if unhealthy:
        parts = [f"{health[state]:,} {state}" for state in UNHEALTHY if health[state]]
        verb = "needs" if unhealthy == 1 else "need"
        return f"{unhealthy:,} of {words.things(total, 'holding')} {verb} a look: {_and(parts)}."
    if cases or alerts:
        parts = [f"{cases:,} under repair"] if cases else []
        parts += [words.things(alerts, "open alert")] if alerts else []
        return f"{words.things(total, 'holding')}, {_and(parts)}."
    if health[Health.NEW]:
        return f"{health[Health.NEW]:,} of {words.things(total, 'holding')} await a first audit."
    return "The one holding is sound." if total == 1 else f"All {total:,} holdings are sound."


def outcome_chart(days: Sequence[Day]) -> Columns:
    series = [
        Series(
            f"is-{outcome}",
            str(outcome).replace("-", " "),
            [day.outcomes.get(outcome, 0) for day in days],
        )
        for outcome in Outcome
    ]
    return Columns("Audits per day by outcome", [words.day(day.start) for day in days], series)


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
