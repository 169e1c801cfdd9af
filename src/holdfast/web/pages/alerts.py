"""Alerts, to be acknowledged, and what is done about failed audits."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.web.api import alerts
from holdfast.web.pages.page import AsVisitor, view
from holdfast.web.pagination import LARGEST

router = view()

ROWS = 50


@router.get("/alerts")
def page(
    visit: AsVisitor,
    *,
    ended: bool = False,
    before: Annotated[int, Query(ge=0, le=LARGEST)] = LARGEST,
) -> HTMLResponse:
    return visit.show(
        "alerts.html",
        "/alerts",
        found=alerts.listing(visit.desk, ended=ended, before=before, limit=ROWS),
        ended=ended,
        steps=alerts.cases(visit.desk, limit=ROWS).steps,
        webhook=visit.desk.settings.alerts.webhook is not None,
    )
