"""Deterministic rules around the policy: they clip what it chose, replace it, or delay an audit.

Times are whole milliseconds since 1970; everything works on arrays with an entry for each holding.
"""

from dataclasses import dataclass
from enum import IntFlag

import numpy as np

from holdfast.errors import InputError
from holdfast.model.action import GRID, Action
from holdfast.model.arrays import BoolArray, FloatArray, IntArray

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Override(IntFlag):
    """Why an audit is not as the policy chose it."""

    TELEMETRY = 1
    STATE = 2
    ENVELOPE = 4
    SHORTEST = 8
    LONGEST = 16
    SAMPLE_CAP = 32
    QUIET = 64
    GAS_PRICE = 128
    FOLLOW_UP = 256
    ASKED = 512


FAIL_SAFE = Override.TELEMETRY | Override.STATE | Override.ENVELOPE
REASONS = {
    Override.TELEMETRY: "the telemetry is missing or stale, so the fail-safe applies",
    Override.STATE: "the policy's state is unavailable, so the fail-safe applies",
    Override.ENVELOPE: "the observation lies outside what training met, so the fail-safe applies",
    Override.SHORTEST: "the interval was below the shortest allowed",
    Override.LONGEST: "the interval was above the longest allowed",
    Override.SAMPLE_CAP: "the sample was above the cap",
    Override.QUIET: "it would have come in a quiet window",
    Override.GAS_PRICE: "the price of gas was above the cap",
    Override.FOLLOW_UP: "an audit failed, and this one follows it up",
    Override.ASKED: "an operator asked for it",
}


def names(overrides: int) -> list[str]:
    """Return the overrides by name, as evidence and metrics write them."""
    return [str(each.name).lower().replace("_", "-") for each in Override(overrides)]


@dataclass(frozen=True)
class Window:
    """A time of each day in UTC, as offsets from midnight; it may pass midnight."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not (0 <= self.start < DAY and 0 <= self.stop < DAY and self.start != self.stop):
            raise InputError("a quiet window begins and ends at different times of the day")

    @property
    def length(self) -> int:
        return (self.stop - self.start) % DAY

    @classmethod
    def parse(cls, text: str) -> "Window":
        """Read `22:00-06:00`."""
        try:
            ends = [part.split(":") for part in text.split("-")]
            (h0, m0), (h1, m1) = [(int(hours), int(minutes)) for hours, minutes in ends]
        except ValueError:
            raise InputError(f"{text!r} is no quiet window: write it as 22:00-06:00") from None
        if not (0 <= h0 < 24 and 0 <= h1 < 24 and 0 <= m0 < 60 and 0 <= m1 < 60):
            raise InputError(f"{text!r} is no quiet window: a day has 24 hours of 60 minutes")
        return cls(h0 * HOUR + m0 * MINUTE, h1 * HOUR + m1 * MINUTE)


@dataclass(frozen=True)
class Rails:
    unit: int = DAY  # milliseconds of a time unit
    shortest: int = 1  # units between two audits, at least
    longest: int = 14  # and at most, whatever delays them
    sample_cap: int = 10_000
    fail_safe: Action = Action(1, 0.10)  # noqa: RUF009 - a named tuple, which can't change
    jitter: float = 0.1  # share of the interval by which it is lengthened or shortened at random
    quiet: tuple[Window, ...] = ()
    gas_price_cap: int | None = None  # wei
    gas_retry: int = 10 * MINUTE
    stale_after: float = 28.0  # units

    def __post_init__(self) -> None:
        if not 0 < self.shortest <= self.longest:
            raise InputError("the shortest interval must be above 0, and not above the longest")
        if self.unit < 1 or self.sample_cap < 1 or self.gas_retry < 1:
            raise InputError("a time unit, a sample and a delay are at least 1")
        if not 0 <= self.jitter < 1:
            raise InputError(f"the jitter must lie between 0 and 1, not at {self.jitter:g}")
        GRID.index_of(*self.fail_safe)
        marks = sorted((window.start, window.length) for window in self.quiet)
        following = [*marks[1:], (marks[0][0] + DAY, 0)] if marks else []
        if any(s + length >= t for (s, length), (t, _) in zip(marks, following, strict=True)):
            raise InputError("quiet windows must not touch each other: write them as one")


@dataclass(frozen=True)
class Plan:
    """When each holding is audited next, and how hard."""

    action: IntArray  # on the grid: nearest to what will be carried out
    interval: IntArray  # units, before jitter and quiet windows
    ratio: FloatArray
    due: IntArray
    overrides: IntArray


def plan(
    rails: Rails,
    now: int,
    chosen: IntArray,
    *,
    telemetry: BoolArray,
    state: BoolArray,
    inside: BoolArray,
    luck: FloatArray,
) -> Plan:
    """Return what becomes of the chosen actions.

    `telemetry`, `state` and `inside` tell what is as it should be; `luck` is uniform in [0, 1).
    """
    overrides = np.zeros(len(chosen), np.int64)
    for sound, reason in (
        (telemetry, Override.TELEMETRY),
        (state, Override.STATE),
        (inside, Override.ENVELOPE),
    ):
        overrides |= np.where(sound, 0, int(reason))
    action = np.where(overrides > 0, GRID.index_of(*rails.fail_safe), chosen)
    wanted = GRID.interval_of[action]
    interval = np.clip(wanted, rails.shortest, rails.longest)
    overrides |= np.where(interval > wanted, int(Override.SHORTEST), 0)
    overrides |= np.where(interval < wanted, int(Override.LONGEST), 0)
    swayed = interval * (1.0 + rails.jitter * (2.0 * luck - 1.0))
    swayed = np.clip(swayed, rails.shortest, rails.longest)
    due, moved = _outside_quiet(rails, now, now + np.rint(swayed * rails.unit).astype(np.int64))
    overrides |= np.where(moved, int(Override.QUIET), 0)
    return Plan(
        action=_on_grid(action, interval, wanted),
        interval=interval,
        ratio=GRID.ratio_of[action],
        due=due,
        overrides=overrides,
    )


def _on_grid(action: IntArray, interval: IntArray, wanted: IntArray) -> IntArray:
    clipped = np.flatnonzero(interval != wanted)
    if len(clipped):
        action = action.copy()
        for at in clipped.tolist():
            action[at] = GRID.nearest(interval[at], GRID.ratio_of[action[at]])
    return action


def _outside_quiet(rails: Rails, now: int, due: IntArray) -> tuple[IntArray, BoolArray]:
    """Move audits behind a quiet window, or before it if it would last too long.

    An audit that fits neither before nor behind takes place in it: no rail delays one beyond the
    longest interval.
    """
    latest = now + rails.longest * rails.unit
    earliest = now + rails.shortest * rails.unit
    moved = due.copy()
    for window in rails.quiet:
        into = (due - window.start) % DAY
        before, behind = due - into - 1, due - into + window.length
        inside = into < window.length
        moved = np.where(inside & (behind <= latest), behind, moved)
        moved = np.where(inside & (behind > latest) & (before >= earliest), before, moved)
    return moved, moved != due


def held(rails: Rails, now: int, gas_price: int, audited: IntArray) -> tuple[BoolArray, IntArray]:
    """Return which due audits wait for cheaper gas, and until when each does.

    `audited` is when each holding's last audit ended. None waits beyond the longest interval.
    """
    latest = audited + rails.longest * rails.unit
    dear = rails.gas_price_cap is not None and gas_price > rails.gas_price_cap
    return dear & (now < latest), np.minimum(now + rails.gas_retry, latest)
