"""Server-sent events: how an event is encoded, and a stream that takes a slot."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.slots import Slots
from holdfast.web import jobs

MEDIA = "text/event-stream"
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA: {}}, "description": "server-sent events"}
}
HEARTBEAT = b": still here\n\n"
SEND_TIMEOUT_SECONDS = 30.0  # after which a client that receives nothing is dropped


def encode_event(name: str, data: Any, id_: int | None = None) -> bytes:
    """Return an event; JSON has no line breaks, so its data is one line."""
    if name == jobs.HEARTBEAT:
        return HEARTBEAT
    mark = "" if id_ is None else f"id: {id_}\n"
    return f"{mark}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class EventResponse(StreamingResponse):
    """A stream of events that takes a slot while it lasts; without a free one it is refused.

    The slot is free again when the client closes, vanishes or receives nothing any more.
    """

    media_type = MEDIA

    def __init__(self, content: AsyncIterator[bytes], slots: Slots, caller: str = "") -> None:
        super().__init__(content)
        self._slots, self._caller = slots, caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                await send(message)

        with self._slots.take(self._caller):
            try:
                await super().__call__(scope, receive, send_in_time)
            except* TimeoutError:
                pass  # the server closes the connection, for the answer has not ended
