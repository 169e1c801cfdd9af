"""The alerts page: alerts to acknowledge, and the steps that follow failed audits."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.control.queries.incidents import list_alerts, list_steps
from holdfast.web.pages.page import AsVisitor, page_router
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
    with visit.read() as connection:
        page = list_alerts(connection, ended=ended, before=before, limit=ROWS)
        steps = list_steps(connection, limit=ROWS).steps
    return visit.show(
        "alerts.html",
        "/alerts",
        page=page,
        ended=ended,
        steps=steps,
        webhook=visit.context.settings.alerts.webhook is not None,
    )
