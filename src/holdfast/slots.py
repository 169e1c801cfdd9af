"""Slots: how many requests of a kind may run at once. One more is refused instead of queued."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import BusyError


class Slots:
    """Bounds how many requests of a kind run at once, in all and per caller."""

    def __init__(self, count: int, per_caller: int | None = None) -> None:
        self._count, self._per_caller = count, per_caller or count
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()  # by caller

    @contextmanager
    def take(self, caller: str = "") -> Iterator[None]:
        """Take a slot while the context lasts; refuse the request if none is free."""
        with self._lock:
            if self._taken.total() >= self._count:
                raise BusyError("too many such requests are running: try again soon")
            if self._taken[caller] >= self._per_caller:
                raise BusyError(
                    f"you have {self._per_caller} of these open already: close one of them first"
                )
            self._taken[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[caller] -= 1
                self._taken += Counter()  # drops callers that have none
