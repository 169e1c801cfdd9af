"""Audits, the newest first: all, of a holding, of an outcome, or those that a guardrail changed."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.control.queries.audits import AuditFilter, AuditRow, list_audits
from holdfast.evidence.leaf import Outcome
from holdfast.web.context import RequestContext
from holdfast.web.pagination import LARGEST, Limit, MarkText, Moment, read_mark, write_mark

router = APIRouter(prefix="/audits", tags=["audits"])


@dataclass(frozen=True)
class AuditPage:
    audits: list[AuditRow]
    next: str | None  # the `after` of the next page


@router.get("", summary="Audits, the newest first")
def get_audits(
    context: RequestContext,
    *,
    holding: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
    outcome: Outcome | None = None,
    overridden: Annotated[bool, Query(description="Only those that a rail changed.")] = False,
    since: Moment = 0,
    until: Moment = LARGEST,
    after: MarkText | None = None,
    limit: Limit = 50,
) -> AuditPage:
    limits = (since or None, until if until < LARGEST else None)
    wanted = AuditFilter(holding, outcome, overridden, *limits)
    with context.read() as connection:
        audits, mark = list_audits(connection, wanted, after=read_mark(after), limit=limit)
    return AuditPage(audits, write_mark(mark))
