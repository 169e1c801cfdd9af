"""What happens, as it happens: each new leaf of the evidence, the newest head, the open alerts.

Any number of workers write, so events are read from the database. A leaf's place in the tree is
the one order that all of them share: it is an event's id, from which a stream resumes after it was
cut off. Heads and alerts are states, sent whenever they have changed.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from holdfast.control.queries.incidents import list_alerts
from holdfast.control.queries.leaves import leaves_after, newest_head, newest_place
from holdfast.web.auth import Known
from holdfast.web.context import Context, RequestContext
from holdfast.web.pagination import LARGEST
from holdfast.web.sse import HEARTBEAT, RESPONSES, EventResponse, encode_event

router = APIRouter(tags=["events"])

POLL_SECONDS = 1.0  # between two looks at the database
MAX_QUIET_POLLS = 15  # without an event until a heartbeat
MAX_EVENTS = 100  # of a kind at once


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
    responses=RESPONSES,
)
async def get_events(
    context: RequestContext,
    known: Known,
    last_event_id: Annotated[int | None, Header(ge=0, le=LARGEST)] = None,
) -> EventResponse:
    start = await run_in_threadpool(_newest, context) if last_event_id is None else last_event_id
    return EventResponse(_stream(context, StreamPosition(start)), context.event_slots, known.key)


async def _stream(context: Context, position: StreamPosition) -> AsyncIterator[bytes]:
    quiet = 0
    yield HEARTBEAT
    while not context.is_closing():
        events, position = await run_in_threadpool(_read_events, context, position)
        for event in events:
            yield event
        quiet = 0 if events else quiet + 1
        if quiet == MAX_QUIET_POLLS:
            quiet = 0
            yield HEARTBEAT
        if len(events) < MAX_EVENTS:
            await asyncio.sleep(POLL_SECONDS)


def _newest(context: Context) -> int:
    with context.read() as connection:
        return newest_place(connection)


def _read_events(context: Context, position: StreamPosition) -> tuple[list[bytes], StreamPosition]:
    """Return the events that a listener has not received yet, and its position after them."""
    with context.read() as connection:
        leaves = leaves_after(connection, position.place, limit=MAX_EVENTS)
        head = newest_head(connection)
        alerts = list_alerts(connection, limit=MAX_EVENTS).alerts
    events = [encode_event("leaf", asdict(leaf), leaf.place) for leaf in leaves]
    place = position.place if not leaves else leaves[-1].place or 0
    head_id = position.head
    if head is not None and head.id != head_id:
        events.append(encode_event("head", {"size": head.size, "signed": head.signed}))
        head_id = head.id
    marks = repr([(alert.id, alert.acknowledged) for alert in alerts])
    if marks != position.alerts:
        events.append(encode_event("alerts", {"open": [asdict(alert) for alert in alerts]}))
    return events, StreamPosition(place, head_id, marks)
