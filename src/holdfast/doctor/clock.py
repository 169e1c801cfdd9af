"""Checks the clock against other clocks, and against times that are recorded as past."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from holdfast.doctor.finding import Check, fault, ok, warning
from holdfast.words import span

PART = "clock"
MAX_SKEW_SECONDS = 60.0  # a request to a node is valid for a minute
CURE = "set the clock by NTP: `timedatectl set-ntp true`, then `timedatectl status`"


@dataclass(frozen=True)
class Reference:
    """Another clock, in seconds ahead of ours when we asked.

    One that is not `exact` is a recorded time, which can't be ahead of a clock that is right.
    """

    who: str
    ahead: float
    exact: bool


def check(references: Iterable[Reference]) -> Iterator[Check]:
    known = list(references)
    recorded = [reference for reference in known if not reference.exact]
    past = max(recorded, key=lambda reference: reference.ahead, default=None)
    asked = [reference for reference in known if reference.exact]
    offset = median(reference.ahead for reference in asked) if asked else 0.0
    if past is not None and past.ahead > MAX_SKEW_SECONDS:
        message = f"the clock is behind by {_span(past.ahead)} or more: {past.who} is in its future"
        yield fault(PART, message, CURE)
    elif abs(offset) > MAX_SKEW_SECONDS:
        side = "behind" if offset > 0 else "ahead of"
        who = asked[0].who if len(asked) == 1 else f"{len(asked)} nodes"
        yield fault(PART, f"the clock is {_span(abs(offset))} {side} that of {who}", CURE)
    else:
        whom = f"{len(asked)} nodes agree with it" if asked else "nobody could be asked"
        yield ok(PART, f"it is not behind anything recorded, and {whom}" if past else whom)
        for reference in asked:
            if abs(reference.ahead - offset) > MAX_SKEW_SECONDS:
                message = (
                    f"the clock of {reference.who} is off by {_span(abs(reference.ahead - offset))}"
                )
                yield warning(PART, message, "tell its operator")


def _span(seconds: float) -> str:
    return span(round(seconds) * 1000)
