"""The clock: held against what others say the time is, and what is recorded as past."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from holdfast.doctor.finding import Check, fault, ok, warning
from holdfast.evidence.explain import span

PART = "clock"
MOST = 60.0  # seconds; a request to a node holds for a minute
CURE = "set the clock by NTP: `timedatectl set-ntp true`, then `timedatectl status`"


@dataclass(frozen=True)
class Reference:
    """What somebody's time was, in seconds ahead of ours when we asked.

    One that is not `exact` only tells what is past: it can't be ahead of a clock that is right.
    """

    who: str
    ahead: float
    exact: bool


def look(references: Iterable[Reference]) -> Iterator[Check]:
    known = list(references)
    past = max(
        (each for each in known if not each.exact), key=lambda each: each.ahead, default=None
    )
    asked = [each for each in known if each.exact]
    offset = median(each.ahead for each in asked) if asked else 0.0
    if past is not None and past.ahead > MOST:
        found = f"the clock is behind by {_span(past.ahead)} or more: {past.who} is in its future"
        yield fault(PART, found, CURE)
    elif abs(offset) > MOST:
        side = "behind" if offset > 0 else "ahead of"
        who = asked[0].who if len(asked) == 1 else f"{len(asked)} nodes"
        yield fault(PART, f"the clock is {_span(abs(offset))} {side} that of {who}", CURE)
    else:
        whom = f"{len(asked)} nodes agree with it" if asked else "nobody could be asked"
        yield ok(PART, f"it is not behind anything recorded, and {whom}" if past else whom)
        for each in asked:
            if abs(each.ahead - offset) > MOST:
                found = f"the clock of {each.who} is off by {_span(abs(each.ahead - offset))}"
                yield warning(PART, found, "tell whoever runs it")


def _span(seconds: float) -> str:
    return span(round(seconds) * 1000)
