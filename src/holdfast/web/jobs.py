"""The messages of a job: long work of a request, in a process of its own.

A job sends pairs of a name and data: any number called `progress`, and at last one of another name.
"""

from collections.abc import AsyncIterator, Callable
from multiprocessing.connection import Connection
from typing import Any

from starlette.concurrency import run_in_threadpool

POLL_SECONDS = 1.0  # without a message, until a heartbeat
PROGRESS, HEARTBEAT, FAILED = "progress", "heartbeat", "failed"

Message = tuple[str, Any]


async def read_messages(
    receiver: Connection, is_closing: Callable[[], bool]
) -> AsyncIterator[Message]:
    """Yield what the job sends, with heartbeats between, up to its last message."""
    name = PROGRESS
    while name == PROGRESS and not is_closing():
        if not await run_in_threadpool(receiver.poll, POLL_SECONDS):
            yield HEARTBEAT, None
            continue
        try:
            name, data = receiver.recv()
        except EOFError:
            name, data = FAILED, {"reason": "it ended before it was done"}
        yield name, data
