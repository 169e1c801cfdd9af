"""Server-sent events: how one is written, and how a stream ends when its server does."""

import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.web.apart import ALIVE
from holdfast.web.desk import Places

MEDIA = "text/event-stream"
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA: {}}, "description": "server-sent events"}
}
HEARTBEAT = b": still here\n\n"


def event(name: str, data: Any, id_: int | None = None) -> bytes:
    """Return an event; JSON has no line breaks, so its data is one line."""
    if name == ALIVE:
        return HEARTBEAT
    mark = "" if id_ is None else f"id: {id_}\n"
    return f"{mark}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class EventResponse(StreamingResponse):
    """A stream that has one of some places as long as it lasts; if all are taken, it is refused."""

    media_type = MEDIA

    def __init__(self, content: AsyncIterator[bytes], places: Places) -> None:
        super().__init__(content)
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._places.taken():
            await super().__call__(scope, receive, send)
