"""How much may be damaged as of now, inferred for the whole fleet in a process of its own."""

from collections.abc import AsyncIterator
from dataclasses import asdict
from multiprocessing.connection import Connection

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from holdfast.control.inference.confidence import infer_confidence
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import HoldfastError
from holdfast.processes import start_child
from holdfast.storage.database import opened
from holdfast.web.context import Context, RequestContext
from holdfast.web.jobs import FAILED, read_messages
from holdfast.web.sse import RESPONSES, EventResponse, encode_event

router = APIRouter(tags=["holdings"])


@router.get(
    "/confidence",
    summary="Infer misses and damage as of now; at last `confidence` as an event",
    response_class=StreamingResponse,
    responses=RESPONSES,
)
async def get_confidence(context: RequestContext) -> EventResponse:
    return EventResponse(_stream(context), context.confidence_slots)


async def _stream(context: Context) -> AsyncIterator[bytes]:
    with start_child(infer, context.address, context.settings, context.clock()) as child:
        async for name, data in read_messages(child.pipe, context.is_closing):
            yield encode_event(name, data)


def infer(sender: Connection, address: str, settings: ControlSettings, now: int) -> None:
    try:
        with opened(address, read_only=True) as engine:
            sender.send(("confidence", asdict(infer_confidence(engine, settings, now))))
    except HoldfastError as error:
        sender.send((FAILED, {"reason": str(error)}))
