"""Long work of a request, in a process of its own.

A job sends pairs of a name and data: any number called `progress`, and at last one of another name.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from starlette.concurrency import run_in_threadpool

from holdfast.workers import end_with_parent

POLL_SECONDS = 1.0  # without a message, until a heartbeat
PROGRESS, HEARTBEAT, FAILED = "progress", "heartbeat", "failed"

Message = tuple[str, Any]


@contextmanager
def run_job(work: Callable[..., None], *arguments: Any) -> Iterator[Connection]:
    """Run `work(sender, *arguments)` in a process; yield the receiver. It ends with the context."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(work, sender, *arguments), daemon=True)
    try:
        process.start()
        sender.close()  # so that we notice when the job ends
        yield receiver
    finally:
        receiver.close()
        process.terminate()
        process.join()


def _work(work: Callable[..., None], *arguments: Any) -> None:
    """Do the work, but not longer than the parent lives, however that one ends."""
    end_with_parent(lambda: os._exit(1))
    work(*arguments)


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
