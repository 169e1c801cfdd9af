"""How sure an owner can be as of now, worked out for the whole fleet in a process of its own."""

from collections.abc import AsyncIterator
from dataclasses import asdict
from multiprocessing.connection import Connection

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from holdfast.control.inference.confidence import say_now
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import HoldfastError
from holdfast.storage.database import opened
from holdfast.web.context import Context, RequestContext
from holdfast.web.jobs import apart, words
from holdfast.web.sse import ANSWER, EventResponse, event

router = APIRouter(tags=["holdings"])


@router.get(
    "/confidence",
    summary="Infer misses and damage as of now; at last `confidence` as an event",
    response_class=StreamingResponse,
    responses=ANSWER,
)
async def confidence(desk: RequestContext) -> EventResponse:
    return EventResponse(_stream(desk), desk.inferring)


async def _stream(desk: Context) -> AsyncIterator[bytes]:
    address = desk.settings.address(desk.folder)
    with apart(infer, address, desk.settings, desk.clock()) as receiver:
        async for name, data in words(receiver, desk.closing):
            yield event(name, data)


def infer(sender: Connection, address: str, settings: ControlSettings, now: int) -> None:
    try:
        with opened(address, read_only=True) as engine:
            sender.send(("confidence", asdict(say_now(engine, settings, now))))
    except HoldfastError as error:
        sender.send(("failed", {"reason": str(error)}))
