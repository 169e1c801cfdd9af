"""Alerts, the newest first, and what is done about failed audits."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import Row, select

from holdfast.control.incidents.alerts import Alert
from holdfast.control.incidents.types import State, Step
from holdfast.control.operator_commands import acknowledge
from holdfast.storage.schema import NEVER, alerts, holdings, responses
from holdfast.web.auth import Operator
from holdfast.web.commands import CommandRequest, Done, carried_out
from holdfast.web.context import RequestContext, values_of
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.pagination import LARGEST, Id, Limit

router = APIRouter(tags=["alerts"])

Before = Annotated[int, Query(ge=0, le=LARGEST, description="Only those with a smaller id.")]


@dataclass(frozen=True)
class AlertPage:
    alerts: list[Alert]
    next: int | None  # the `before` of the next page


@dataclass(frozen=True)
class CaseStep:
    """A step in answer to a failed audit."""

    id: int
    holding: int
    name: str
    audit: int  # the number of the one that failed
    step: Step
    state: State
    detail: str
    began: int | None
    ended: int | None


@dataclass(frozen=True)
class CasePage:
    steps: list[CaseStep]
    next: int | None


@router.get("/alerts", summary="Alerts, the newest first")
def listing(
    desk: RequestContext,
    *,
    ended: Annotated[bool, Query(description="Those that have ended, too.")] = False,
    before: Before = LARGEST,
    limit: Limit = 50,
) -> AlertPage:
    query = select(*(alerts.c[name] for name in Alert.__dataclass_fields__))
    query = query.where(alerts.c.id < before).order_by(alerts.c.id.desc()).limit(limit + 1)
    rows = desk.rows(query if ended else query.where(alerts.c.ended == NEVER))
    found = [Alert(**values_of(Alert, row) | {"ended": _ended(row.ended)}) for row in rows[:limit]]
    return AlertPage(found, found[-1].id if len(rows) > limit else None)


@router.post("/alerts/{alert}/acknowledge", summary="Say that you have seen an alert")
def order_acknowledge(
    desk: RequestContext, operator: Operator, alert: Id, order: CommandRequest
) -> Done:
    if desk.row(select(alerts.c.id).where(alerts.c.id == alert)) is None:
        raise WebRefusedError(Code.NOT_FOUND, f"there is no alert {alert}")
    with carried_out():
        acknowledge(desk.writer, alert, operator.author(desk, order.reason))
    return Done(f"alert {alert} is acknowledged")


@router.get("/cases", summary="What failed audits led to, step by step, the newest first")
def cases(
    desk: RequestContext,
    *,
    holding: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
    before: Before = LARGEST,
    limit: Limit = 50,
) -> CasePage:
    shown = (name for name in CaseStep.__dataclass_fields__ if name != "name")
    query = select(*(responses.c[name] for name in shown), holdings.c.name)
    query = query.join(holdings, holdings.c.id == responses.c.holding)
    query = query.where(responses.c.id < before).order_by(responses.c.id.desc()).limit(limit + 1)
    rows = desk.rows(query if holding is None else query.where(responses.c.holding == holding))
    steps = [CaseStep(**values_of(CaseStep, row) | _typed(row)) for row in rows[:limit]]
    return CasePage(steps, steps[-1].id if len(rows) > limit else None)


def _typed(row: Row[Any]) -> dict[str, Any]:
    """Return what a step's row has in another form."""
    words = {"step": Step(row.step), "state": State(row.state)}
    return words | {"began": row.began or None, "ended": _ended(row.ended)}


def _ended(moment: int) -> int | None:
    return None if moment == NEVER else moment
