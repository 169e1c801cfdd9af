"""Holdings: a list with the worst first, each by itself, and the commands about one."""

from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.control.incidents import store
from holdfast.control.operator_commands import audit_now
from holdfast.control.queries.fleet import Health
from holdfast.control.queries.holdings import (
    HoldingDetail,
    HoldingFilter,
    HoldingPage,
    Sort,
    list_holdings,
    read_holding,
    read_name,
)
from holdfast.web.auth import Operator
from holdfast.web.commands import CommandRequest, Done
from holdfast.web.context import Context, RequestContext
from holdfast.web.pagination import MAX_SEARCH_LENGTH, Id, Limit, Page

router = APIRouter(prefix="/holdings", tags=["holdings"])

Search = Annotated[
    str,
    Query(
        max_length=MAX_SEARCH_LENGTH, pattern=r"^[^\x00-\x1f]*$", description="A part of the name."
    ),
]


@router.get("", summary="All holdings, the worst first")
def get_holdings(
    context: RequestContext,
    *,
    health: Annotated[list[Health] | None, Query(max_length=len(Health))] = None,
    search: Search = "",
    sort: Sort = Sort.HEALTH,
    page: Page = 1,
    limit: Limit = 50,
) -> HoldingPage:
    wanted = HoldingFilter(health or (), search, sort)
    with context.read() as connection:
        return list_holdings(connection, context.as_of_now(), wanted, page=page, limit=limit)


@router.get("/{holding}", summary="One holding, and the decision about its next audit")
def get_holding(context: RequestContext, holding: Id) -> HoldingDetail:
    with context.read() as connection:
        return read_holding(connection, context.as_of_now(), holding)


@router.post("/{holding}/audit-now", summary="Audit it as soon as a worker is free")
def order_audit(
    context: RequestContext, operator: Operator, holding: Id, command: CommandRequest
) -> Done:
    name = _name(context, holding)
    audit_now(context.writer, name, operator.author(context, command.reason))
    return Done(f"{name} is due now")


@router.post("/{holding}/release", summary="Bring it back from quarantine")
def order_release(
    context: RequestContext, operator: Operator, holding: Id, command: CommandRequest
) -> Done:
    name = _name(context, holding)
    store.release(context.writer, name, operator.author(context, command.reason))
    return Done(f"{name} is on the schedule again")


def _name(context: Context, holding: int) -> str:
    with context.read() as connection:
        return read_name(connection, holding)
