"""Server-sent events: how one is written, and who may have how many streams of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.web.context import Places
from holdfast.web.jobs import ALIVE

MEDIA = "text/event-stream"
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA: {}}, "description": "server-sent events"}
}
HEARTBEAT = b": still here\n\n"
SEND_TIMEOUT_SECONDS = 30.0  # after which a client that takes nothing any more is given up


def event(name: str, data: Any, id_: int | None = None) -> bytes:
    """Return an event; JSON has no line breaks, so its data is one line."""
    if name == ALIVE:
        return HEARTBEAT
    mark = "" if id_ is None else f"id: {id_}\n"
    return f"{mark}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class EventResponse(StreamingResponse):
    """A stream that has one of some places as long as it lasts; if all are taken, it is refused.

    A place is free again when the client closes, vanishes or takes nothing any more.
    """

    media_type = MEDIA

    def __init__(self, content: AsyncIterator[bytes], places: Places, caller: str = "") -> None:
        super().__init__(content)
        self._places, self._caller = places, caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                await send(message)

        with self._places.taken(self._caller):
            try:
                await super().__call__(scope, receive, send_in_time)
            except* TimeoutError:
                pass  # the server closes the connection, for the answer has not ended
