"""Work that would keep pages waiting, in a process of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any


@contextmanager
def apart(work: Callable[..., None], *given: Any) -> Iterator[Connection]:
    """Begin `work(sender, *given)` elsewhere; yield what it sends. It ends with the context."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(sender, *given), daemon=True)
    try:
        process.start()
        sender.close()  # so that its end is seen
        yield receiver
    finally:
        receiver.close()
        process.terminate()
        process.join()
