"""The fleet page: the fleet's state in a sentence and in figures, audits per day, every holding."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.control.queries.daily import Day
from holdfast.control.queries.fleet import Health, read_figures
from holdfast.control.queries.holdings import HoldingFilter, Sort, list_holdings
from holdfast.evidence.leaf import Outcome
from holdfast.web.pages import words
from holdfast.web.pages.chart import Columns, Series
from holdfast.web.pages.page import AsVisitor, page_router
from holdfast.web.pages.summary import cases_under_way, headline
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
        cases = cases_under_way(connection)
    return visit.show(
        "fleet.html",
        "/",
        fleet=figures,
        headline=headline(figures),
        cases=cases,
        more_cases=figures.cases - len(cases),
        chart=outcome_chart(days),
        page=holdings,
        health=Health(health) if health else None,
        search=printable,
        sort=sort,
        sorts=list(Sort),
    )


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
