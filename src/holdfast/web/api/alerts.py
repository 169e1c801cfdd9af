"""Alerts, the newest first, and the steps that follow failed audits."""

from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.control.operator_commands import acknowledge
from holdfast.control.queries.incidents import AlertPage, CasePage, list_alerts, list_steps
from holdfast.web.auth import Operator
from holdfast.web.commands import CommandRequest, Done
from holdfast.web.context import RequestContext
from holdfast.web.pagination import LARGEST, Id, Limit

router = APIRouter(tags=["alerts"])

Before = Annotated[int, Query(ge=0, le=LARGEST, description="Only those with a smaller id.")]


@router.get("/alerts", summary="Alerts, the newest first")
def get_alerts(
    context: RequestContext,
    *,
    ended: Annotated[bool, Query(description="Those that have ended, too.")] = False,
    before: Before = LARGEST,
    limit: Limit = 50,
) -> AlertPage:
    with context.read() as connection:
        return list_alerts(connection, ended=ended, before=before, limit=limit)


@router.post("/alerts/{alert}/acknowledge", summary="Say that you have seen an alert")
def acknowledge_alert(
    context: RequestContext, operator: Operator, alert: Id, command: CommandRequest
) -> Done:
    acknowledge(context.writer, alert, operator.author(context, command.reason))
    return Done(f"alert {alert} is acknowledged")


@router.get("/cases", summary="What failed audits led to, step by step, the newest first")
def get_cases(
    context: RequestContext,
    *,
    holding: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
    before: Before = LARGEST,
    limit: Limit = 50,
) -> CasePage:
    with context.read() as connection:
        return list_steps(connection, holding=holding, before=before, limit=limit)
