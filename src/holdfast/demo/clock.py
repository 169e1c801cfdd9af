"""The demo's clock: it runs like any clock, and can be moved ahead but never back."""

import time


class Clock:
    """Milliseconds since 1970.

    It is moved only between two pieces of work, so that what they measure is what they took.
    """

    def __init__(self) -> None:
        self._ahead = time.time_ns() // 1_000_000 - _steady()

    def __call__(self) -> int:
        return _steady() + self._ahead

    def seconds(self) -> float:
        return self() / 1000

    def reach(self, moment: int) -> None:
        """Move on to that moment, unless it has passed."""
        self._ahead += max(0, moment - self())


def _steady() -> int:
    return time.monotonic_ns() // 1_000_000
