"""How long a thread may take for what it does now: set where the time is known, asked anywhere."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float] = ContextVar("_end", default=math.inf)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Bound all that this thread waits for within, if a time is given."""
    token = _end.set(math.inf if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(token)


def seconds_left() -> float:
    """Return the time that is left: infinite if nobody has set a limit."""
    return _end.get() - time.monotonic()
