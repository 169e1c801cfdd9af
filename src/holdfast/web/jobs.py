"""Work that would keep pages waiting, in a process of its own.

It sends pairs of a name and data: any number called `progress`, and at last one that is not.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from starlette.concurrency import run_in_threadpool

from holdfast.workers import end_with_parent

LOOK = 1.0  # seconds without a word, until a sign of life
PROGRESS, ALIVE = "progress", "alive"

Word = tuple[str, Any]


@contextmanager
def apart(work: Callable[..., None], *given: Any) -> Iterator[Connection]:
    """Begin `work(sender, *given)` elsewhere; yield what it sends. It ends with the context."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_bound, args=(work, sender, *given), daemon=True)
    try:
        process.start()
        sender.close()  # so that its end is seen
        yield receiver
    finally:
        receiver.close()
        process.terminate()
        process.join()


def _bound(work: Callable[..., None], *given: Any) -> None:
    """Do the work, but not longer than who wants it lives, however that one ends."""
    end_with_parent(lambda: os._exit(1))
    work(*given)


async def words(receiver: Connection, closing: Callable[[], bool]) -> AsyncIterator[Word]:
    """Yield what the work says, and signs of life in between; it ends with its last word."""
    name = PROGRESS
    while name == PROGRESS and not closing():
        if not await run_in_threadpool(receiver.poll, LOOK):
            yield ALIVE, None
            continue
        try:
            name, data = receiver.recv()
        except EOFError:
            name, data = "failed", {"reason": "it ended before it was done"}
        yield name, data
