"""Says when a command waits for another process that uses the same home."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Notify = Callable[[str], None]


class _Waiting:
    """Whom to tell that this process waits; nobody by default."""

    notify: Notify | None = None


@contextmanager
def notify_waits(notify: Notify) -> Iterator[None]:
    """Have sentences about waiting in any thread given to a function."""
    before, _Waiting.notify = _Waiting.notify, notify
    try:
        yield
    finally:
        _Waiting.notify = before


def say_waiting(sentence: str) -> None:
    if _Waiting.notify is not None:
        _Waiting.notify(sentence)
