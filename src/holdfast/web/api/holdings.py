"""Holdings: a list with the worst first, each by itself, and the commands about one."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from holdfast.control import checked_commands, holding_commands
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
from holdfast.owner import Catalogue, discard_tags, plan_removal
from holdfast.owner.checked import CheckedRecord, find_checked
from holdfast.web.auth import Admin, Operator
from holdfast.web.commands import CommandRequest, Done
from holdfast.web.context import Context, RequestContext
from holdfast.web.pagination import MAX_SEARCH_LENGTH, Id, Limit, Page

MAX_URL_LENGTH = 2048


class UrlRequest(CommandRequest):
    url: Annotated[str, Field(max_length=MAX_URL_LENGTH)]


class NameRequest(CommandRequest):
    name: Annotated[str, Field(max_length=MAX_SEARCH_LENGTH)]


class RemovalRequest(CommandRequest):
    keep_files: bool = False


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


@router.post("/{holding}/set-url", summary="Follow its node to another URL")
def order_url(context: RequestContext, admin: Admin, holding: Id, command: UrlRequest) -> Done:
    name = _name(context, holding)
    author = admin.author(context, command.reason)
    holding_commands.set_url(Catalogue(context.writer), name, command.url, author)
    return Done(f"{name} is at another URL now")


@router.post("/{holding}/rename", summary="Give it another name")
def order_name(context: RequestContext, admin: Admin, holding: Id, command: NameRequest) -> Done:
    name = _name(context, holding)
    author, catalogue = admin.author(context, command.reason), Catalogue(context.writer)
    checked = _find_checked(catalogue, name)
    if checked is not None:
        checked_commands.rename(catalogue, checked, command.name, author)
    else:
        holding_commands.rename(catalogue, name, command.name, author)
    return Done(f"{name} is called {command.name} now")


@router.post("/{holding}/remove", summary="Remove it, and its files on the node unless kept")
def order_removal(
    context: RequestContext, admin: Admin, holding: Id, command: RemovalRequest
) -> Done:
    """Remove a holding. The service deletes the files on the node, if the node can be reached."""
    name, catalogue = _name(context, holding), Catalogue(context.writer)
    checked = _find_checked(catalogue, name)
    if checked is not None:
        author = admin.author(context, command.reason)
        checked_commands.remove(catalogue, context.folder, checked, author)
        return Done(f"{name} is removed; what it was about stays at {checked.address}")
    plan = plan_removal(catalogue, name, keep_files=command.keep_files)
    holding_commands.remove(catalogue, plan, admin.author(context, command.reason))
    discard_tags(context.folder, plan.holding)
    fate = "are deleted on" if plan.delete_files else "stay on"
    return Done(f"{name} is removed; its files {fate} the node")


def _find_checked(catalogue: Catalogue, name: str) -> CheckedRecord | None:
    with catalogue.transaction() as connection:
        return find_checked(connection, name)


def _name(context: Context, holding: int) -> str:
    with context.read() as connection:
        return read_name(connection, holding)
