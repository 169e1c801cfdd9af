"""The alerts page: alerts to acknowledge, what is under way, and what failed audits led to."""

from dataclasses import replace
from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.control.queries.fleet import read_figures
from holdfast.control.queries.incidents import list_alerts, list_steps
from holdfast.web.pages.page import AsVisitor, page_router
from holdfast.web.pages.summary import cases_under_way, headline
from holdfast.web.pagination import LARGEST

router = page_router()

ROWS = 50


@router.get("/alerts")
def show_alerts(
    visit: AsVisitor,
    *,
    ended: bool = False,
    before: Annotated[int, Query(ge=0, le=LARGEST)] = LARGEST,
) -> HTMLResponse:
    context = visit.context
    with visit.read() as connection:
        fleet = read_figures(connection, context.clock(), grace=context.grace)
        cases = cases_under_way(connection)
        page = list_alerts(connection, ended=ended, before=before, limit=ROWS)
        steps = list_steps(connection, limit=ROWS).steps
    rest = replace(fleet, alerts=0)  # the page begins with those
    return visit.show(
        "alerts.html",
        "/alerts",
        page=page,
        ended=ended,
        steps=steps,
        fleet=fleet,
        others=None if rest.fine else headline(rest),
        cases=cases,
        more_cases=fleet.cases - len(cases),
        webhook=context.settings.alerts.webhook is not None,
    )
