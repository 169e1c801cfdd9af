"""Audits, the newest first: all, of a holding, of an outcome, or those that a rail changed."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import ColumnElement, Row, select

from holdfast.control.scheduling import guardrails
from holdfast.control.scheduling.telemetry import Outcome
from holdfast.storage.schema import audits, holdings
from holdfast.web.context import RequestContext, values_of
from holdfast.web.pagination import LARGEST, Limit, Mark, Moment, below, mark

router = APIRouter(prefix="/audits", tags=["audits"])


@dataclass(frozen=True)
class AuditRow:
    id: int
    holding: int
    name: str
    number: int  # of the holding's audits
    due: int
    ended: int
    outcome: str
    interval: int
    ratio: float
    samples: int
    overrides: list[str]
    latency: float  # seconds until the node's answer
    gas: float


@dataclass(frozen=True)
class AuditPage:
    audits: list[AuditRow]
    next: str | None


@router.get("", summary="Audits, the newest first")
def listing(
    desk: RequestContext,
    *,
    holding: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
    outcome: Outcome | None = None,
    overridden: Annotated[bool, Query(description="Only those that a rail changed.")] = False,
    since: Moment = 0,
    until: Moment = LARGEST,
    after: Mark | None = None,
    limit: Limit = 50,
) -> AuditPage:
    wanted: list[ColumnElement[bool]] = []
    # A holding's audits end in the order of their numbers, by which they have an index.
    order = (audits.c.ended, audits.c.id)
    if holding is not None:
        wanted.append(audits.c.holding == holding)
        order = (audits.c.number, audits.c.id)
    if outcome is not None:
        wanted.append(audits.c.outcome == str(outcome))
    if overridden:
        wanted.append(audits.c.overrides != 0)
    if since:
        wanted.append(audits.c.ended >= since)
    if until < LARGEST:
        wanted.append(audits.c.ended < until)
    if after is not None:
        wanted.append(below(*order, after))
    query = (
        select(audits, holdings.c.name)
        .join(holdings, holdings.c.id == audits.c.holding)
        .where(*wanted)
        .order_by(*(column.desc() for column in order))
        .limit(limit + 1)
    )
    rows = desk.rows(query)
    further = rows[limit - 1] if len(rows) > limit else None
    follows = None if further is None else mark(*(getattr(further, c.name) for c in order))
    return AuditPage([_row(row) for row in rows[:limit]], follows)


def _row(row: Row[Any]) -> AuditRow:
    return AuditRow(**values_of(AuditRow, row) | {"overrides": guardrails.names(row.overrides)})
