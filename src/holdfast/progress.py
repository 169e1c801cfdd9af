"""Progress in words: how many blocks are done, how many a second, and how long the rest takes."""

from dataclasses import dataclass

MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 60, 3600, 86_400


@dataclass(frozen=True)
class BlockProgress:
    """Blocks done of how many, in that many seconds of work."""

    done: int
    total: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """How long the rest takes at this rate, if there is a rate."""
        return (self.total - self.done) / self.per_second if self.per_second else None

    def describe(self) -> str:
        text = f"{self.done:,} of {self.total:,} blocks"
        if self.remaining_seconds is None or self.done == self.total:
            return text
        left = describe_seconds(self.remaining_seconds)
        return f"{text}, {self.per_second:,.0f} a second, about {left} left"


def describe_seconds(seconds: float) -> str:
    """Return a length of time in one rounded unit."""
    for unit, length in (("d", DAY_SECONDS), ("h", HOUR_SECONDS), ("min", MINUTE_SECONDS)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"
