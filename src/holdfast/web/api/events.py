"""What happens, as it happens: each new leaf of the evidence, the newest head, the open alerts.

Any number of workers write, so events are read from the database. A leaf's place in the tree is
the one order that all of them keep to: it is an event's id, from which a stream goes on after it
was cut off. Heads and alerts are states, sent whenever they have changed.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool

from holdfast.control.incidents.alerts import Alerts
from holdfast.storage.schema import checkpoints, leaves
from holdfast.web.auth import Known
from holdfast.web.context import Context, RequestContext
from holdfast.web.pagination import LARGEST
from holdfast.web.services.leaf_view import leaf_query, told
from holdfast.web.sse import ANSWER, HEARTBEAT, EventResponse, event

router = APIRouter(tags=["events"])

LOOK = 1.0  # seconds between two looks at the database
SILENCE = 15  # looks without news until a sign of life
AT_ONCE = 100


@dataclass(frozen=True)
class StreamPosition:
    """How far a listener has come."""

    place: int  # of the last leaf
    head: int = 0  # the id of the newest
    alerts: str = ""


@router.get(
    "/events",
    summary="Leaves, heads and alerts as they come",
    response_class=StreamingResponse,
    responses=ANSWER,
)
async def events(
    desk: RequestContext,
    known: Known,
    last_event_id: Annotated[int | None, Header(ge=0, le=LARGEST)] = None,
) -> EventResponse:
    start = await run_in_threadpool(_newest, desk) if last_event_id is None else last_event_id
    return EventResponse(_stream(desk, StreamPosition(start)), desk.listeners, known.key)


async def _stream(desk: Context, seen: StreamPosition) -> AsyncIterator[bytes]:
    silent = 0
    yield HEARTBEAT
    while not desk.closing():
        news, seen = await run_in_threadpool(_news, desk, seen)
        for each in news:
            yield each
        silent = 0 if news else silent + 1
        if silent == SILENCE:
            silent = 0
            yield HEARTBEAT
        if len(news) < AT_ONCE:
            await asyncio.sleep(LOOK)


def _newest(desk: Context) -> int:
    row = desk.row(select(func.max(leaves.c.place).label("place")))
    return -1 if row is None or row.place is None else int(row.place)


def _news(desk: Context, seen: StreamPosition) -> tuple[list[bytes], StreamPosition]:
    """Return what a listener has not heard yet, and how far it has come then."""
    news = []
    query = leaf_query().where(leaves.c.place > seen.place).order_by(leaves.c.place)
    for row in desk.rows(query.limit(AT_ONCE)):
        news.append(event("leaf", asdict(told(row)), row.place))
        seen = replace(seen, place=row.place)
    newest = select(checkpoints.c.id, checkpoints.c.size, checkpoints.c.signed)
    head = desk.row(newest.order_by(checkpoints.c.id.desc()).limit(1))
    if head is not None and head.id != seen.head:
        news.append(event("head", {"size": head.size, "signed": head.signed}))
        seen = replace(seen, head=head.id)
    alerts = [asdict(each) for each in Alerts(desk.reader, desk.clock).listing(limit=AT_ONCE)]
    marks = repr([(each["id"], each["acknowledged"]) for each in alerts])
    if marks != seen.alerts:
        news.append(event("alerts", {"open": alerts}))
        seen = replace(seen, alerts=marks)
    return news, seen
