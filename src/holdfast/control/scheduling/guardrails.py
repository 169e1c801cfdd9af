"""Guardrails around the policy: they clip or replace its choice, and draw the time of the audit.

Times are drawn, never clipped: no moment is likelier than its neighbours, and a node that drops its
data is never safe. Times are whole milliseconds since 1970. All functions work on arrays with an
entry per holding, and all randomness is passed in.
"""

import math
from dataclasses import dataclass
from enum import IntFlag
from typing import Annotated, Any

import numpy as np
from pydantic import PlainSerializer

from holdfast.durations import DAY, HOUR, MINUTE
from holdfast.errors import InputError
from holdfast.model.action import GRID, Action
from holdfast.model.arrays import BoolArray, FloatArray, IntArray
from holdfast.settings_file import (
    Count,
    Duration,
    Number,
    Share,
    Table,
    Wei,
    parse_text,
    parsed_by,
)


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
    SURPRISE = 1024
    FIRST = 2048
    RECOVERY = 4096
    VERIFY_WITHIN = 8192
    DAILY_BYTES = 16384


FAIL_SAFE = Override.TELEMETRY | Override.STATE | Override.ENVELOPE
INTERVAL_RAILS = Override.SHORTEST | Override.LONGEST | Override.FIRST | Override.RECOVERY
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
    Override.SURPRISE: "a few audits come early at random, so that no time is safe from one",
    Override.FIRST: "a new holding is audited soon, at a random time",
    Override.RECOVERY: "an audit failed, and too few audits have passed since",
    Override.VERIFY_WITHIN: "every unit is to be verified within the time that was set",
    Override.DAILY_BYTES: "the sample was above the bytes that checks may read in a day",
}


def override_names(overrides: int) -> list[str]:
    """Return the overrides by name, as evidence and metrics write them."""
    return [str(flag.name).lower().replace("_", "-") for flag in Override(overrides)]


@dataclass(frozen=True)
class Window:
    """A time of each day in UTC, as offsets from midnight; it may pass midnight."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not (0 <= self.start < DAY and 0 <= self.stop < DAY and self.start != self.stop):
            raise InputError("a quiet window begins and ends at different times of the day")

    def __str__(self) -> str:
        ends = (divmod(end // MINUTE, 60) for end in (self.start, self.stop))
        return "-".join(f"{hours:02}:{minutes:02}" for hours, minutes in ends)

    @property
    def length(self) -> int:
        return (self.stop - self.start) % DAY

    @classmethod
    def parse(cls, text: Any) -> "Window":
        """Read `22:00-06:00`."""
        try:
            ends = [part.split(":") for part in parse_text(text).split("-")]
            (h0, m0), (h1, m1) = [(int(hours), int(minutes)) for hours, minutes in ends]
        except ValueError:
            raise InputError(f"{text!r} is no quiet window: write it as 22:00-06:00") from None
        if not (0 <= h0 < 24 and 0 <= h1 < 24 and 0 <= m0 < 60 and 0 <= m1 < 60):
            raise InputError(f"{text!r} is no quiet window: a day has 24 hours of 60 minutes")
        return cls(h0 * HOUR + m0 * MINUTE, h1 * HOUR + m1 * MINUTE)


def _parse_action(value: Any) -> Action:
    if (
        not isinstance(value, list)
        or len(value) != 2
        or any(type(part) not in {int, float} for part in value)
    ):
        raise InputError("must be an interval and a ratio, as in [1, 0.10]")
    GRID.index_of(*value)
    return Action(*value)


QuietWindow = Annotated[Window, parsed_by(Window.parse), PlainSerializer(str)]
GridAction = Annotated[Action, parsed_by(_parse_action), PlainSerializer(list)]


@dataclass(frozen=True)
class Rails(Table):
    unit: Duration = DAY  # milliseconds of a time unit
    shortest: Count = 1  # units between two audits, at least
    longest: Count = 14  # and at most, whatever delays them
    sample_cap: Count = 10_000
    fail_safe: GridAction = Action(1, 0.10)  # noqa: RUF009 - a named tuple, which can't change
    jitter: Share = 0.1  # of the interval, by which it is lengthened or shortened at random
    surprise: Share = 0.1  # of audits that come early, at any time since the last
    first: Number = 1.0  # units within which a new holding is audited; 0 leaves it to the policy
    recovery: Count = 1  # units between two audits, at most, after a failure
    recovery_passes: Count = 3  # passes in a row that end this
    quiet: tuple[QuietWindow, ...] = ()
    gas_price_cap: Wei | None = None
    gas_retry: Duration = 10 * MINUTE
    stale_after: Number = 28.0  # units

    def __post_init__(self) -> None:
        if self.shortest > self.longest:
            raise ValueError("shortest must not be above longest")
        marks = sorted((window.start, window.length) for window in self.quiet)
        following = [*marks[1:], (marks[0][0] + DAY, 0)] if marks else []
        if any(s + length >= t for (s, length), (t, _) in zip(marks, following, strict=True)):
            raise ValueError("quiet windows must not touch each other: write them as one")

    @property
    def audits_per_interval(self) -> float:
        """How many audits take place in the time of one interval, with the early ones."""
        return -math.log1p(-self.surprise) / self.surprise if self.surprise else 1.0


class OpenTime:
    """A clock that runs outside quiet windows and stands still in them."""

    def __init__(self, quiet: tuple[Window, ...]) -> None:
        marks = sorted((window.start, window.length) for window in quiet)
        self._origin = sum(marks[0])  # a day begins where a window ends
        starts = [start + length - self._origin for start, length in marks]
        stops = [start - self._origin for start, _ in marks[1:]] + [
            marks[0][0] + DAY - self._origin
        ]
        self._starts = np.array(starts)
        self._lengths = np.array(stops) - self._starts
        self._before = np.cumsum(self._lengths) - self._lengths
        self._quiet = np.roll([length for _, length in marks], -1)  # behind each open span
        self.a_day = int(self._lengths.sum())

    def at(self, moments: IntArray | int) -> IntArray:
        """Return what the clock shows at these moments."""
        days, into = np.divmod(np.asarray(moments, np.int64) - self._origin, DAY)
        span = np.searchsorted(self._starts, into, side="right") - 1
        open_for = np.minimum(into - self._starts[span], self._lengths[span])
        return np.asarray(days * self.a_day + self._before[span] + open_for, np.int64)

    def when(self, shown: IntArray) -> IntArray:
        """Return the moments outside quiet windows at which the clock shows this."""
        days, into = np.divmod(shown, self.a_day)
        span = np.searchsorted(self._before, into, side="right") - 1
        moments = self._origin + days * DAY + self._starts[span] + into - self._before[span]
        return np.asarray(moments, np.int64)

    def window_lengths(self, moments: IntArray) -> IntArray:
        """Return the length of the quiet window around each moment, 0 outside of windows."""
        into = (moments - self._origin) % DAY
        span = np.searchsorted(self._starts, into, side="right") - 1
        inside = into - self._starts[span] >= self._lengths[span]
        return np.where(inside, self._quiet[span], 0)


DRAWS = 3  # uniform numbers per holding that a plan uses
CHECKS_WITHIN = 4  # at least, in the time within which every unit is to be verified


@dataclass(frozen=True)
class Plan:
    """When each holding is audited next, and how large the sample is."""

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
    new: BoolArray,
    recovering: BoolArray,
    uniforms: FloatArray,
    within: IntArray | None = None,
) -> Plan:
    """Return the audits that the guardrails make of the chosen actions.

    `telemetry`, `state` and `inside` say where each is sound, `new` which holdings await their
    first audit, and `recovering` which had too few passes since a failure. `uniforms` has `DRAWS`
    rows of numbers that are uniform in [0, 1). `within` are the milliseconds in which all units of
    each are to be verified; 0 if nobody asks for it.
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
    longest = _longest(rails, within)
    interval, clipped = _clip(rails, wanted, recovering, longest)
    regular_draw, quiet_draw, surprise_draw = uniforms
    due, moved = _regular(rails, now, interval, longest, regular_draw, quiet_draw)
    surprise = _surprise(rails, now, interval, surprise_draw)
    early = surprise < due
    due = np.where(early, surprise, due)
    clipped |= np.where(moved & ~early, int(Override.QUIET), 0)
    clipped |= np.where(early, int(Override.SURPRISE), 0)
    if rails.first and new.any():
        due = np.where(new, _first(rails, now, regular_draw), due)
        interval = np.where(new, np.minimum(interval, math.ceil(rails.first)), interval)
        clipped = np.where(new, int(Override.FIRST), clipped)
        early |= new
    overrides |= clipped
    return Plan(
        action=_on_grid(action, np.where(early, (due - now) / rails.unit, interval), wanted),
        interval=interval,
        ratio=GRID.ratio_of[action],
        due=due,
        overrides=overrides,
    )


_FAR = 1 << 50  # milliseconds, behind every audit
_BETWEEN = np.convolve(GRID.intervals, (0.5, 0.5), "valid")  # of two as close, the stricter


def _on_grid(action: IntArray, interval: FloatArray, wanted: IntArray) -> IntArray:
    """Return the actions nearest to these intervals, with the ratios that they have."""
    nearest = np.searchsorted(_BETWEEN, interval) * len(GRID.ratios) + action % len(GRID.ratios)
    return np.where(interval == wanted, action, nearest)


def longest_within(rails: Rails, within: int) -> int:
    """Return the longest interval of a holding whose units are to be verified within this time."""
    return int(np.clip(within // (CHECKS_WITHIN * rails.unit), rails.shortest, rails.longest))


def _longest(rails: Rails, within: IntArray | None) -> IntArray:
    """Return the longest interval of each holding, or the one that all have."""
    if within is None or not within.any():
        return np.asarray(rails.longest, np.int64)
    own = np.clip(within // (CHECKS_WITHIN * rails.unit), rails.shortest, rails.longest)
    return np.where(within > 0, own, rails.longest)


def _clip(
    rails: Rails, wanted: IntArray, recovering: BoolArray, longest: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the intervals within the bounds, and which rails changed them."""
    recovery = np.clip(rails.recovery, rails.shortest, longest)
    short = np.where(recovering, np.minimum(wanted, recovery), wanted)
    interval = np.clip(short, rails.shortest, longest)
    overrides = np.where(short < wanted, int(Override.RECOVERY), 0)
    overrides |= np.where(interval > short, int(Override.SHORTEST), 0)
    rail = np.where(longest < rails.longest, int(Override.VERIFY_WITHIN), int(Override.LONGEST))
    overrides |= np.where(interval < short, rail, 0)
    return interval, overrides


def _first(rails: Rails, now: int, draw: FloatArray) -> IntArray:
    """Return times that are uniform over the first units of a holding, outside quiet windows."""
    length = round(min(rails.first, rails.longest) * rails.unit)
    if not rails.quiet:
        return np.asarray(now + (draw * length).astype(np.int64))
    clock = OpenTime(rails.quiet)
    begun, over = clock.at(now), clock.at(now + length)
    if over - begun < MINUTE:  # there is no room outside: a new holding does not wait for it
        return np.asarray(now + (draw * length).astype(np.int64))
    return clock.when(begun + (draw * (over - begun)).astype(np.int64))


def _regular(
    rails: Rails,
    now: int,
    interval: IntArray,
    longest: IntArray,
    draw: FloatArray,
    quiet_draw: FloatArray,
) -> tuple[IntArray, BoolArray]:
    """Return times uniform over the jitter's range within the bounds, and which left a window.

    Where both bounds are one, the jitter shortens: `longest` is a promise about damage, `shortest`
    a limit on cost.
    """
    shortest = np.where(rails.shortest < longest, rails.shortest, 0)
    low = np.maximum(interval * (1.0 - rails.jitter), shortest)
    high = np.minimum(interval * (1.0 + rails.jitter), longest)
    due = now + np.rint((low + draw * (high - low)) * rails.unit).astype(np.int64)
    latest = np.broadcast_to(now + longest * rails.unit, due.shape)
    return _outside_quiet(rails, due, now + shortest * rails.unit, latest, quiet_draw)


def _surprise(rails: Rails, now: int, interval: IntArray, draw: FloatArray) -> IntArray:
    """Return when a clock without memory rings, which is soon for a small share of holdings.

    Its rate is such that it rings within the interval with the probability `surprise`. It stands
    still in quiet windows, and knows no shortest interval: right after an audit the next one is
    as likely as at any other time.
    """
    if not rails.surprise:
        return np.full(len(draw), _FAR)
    length = interval * rails.unit
    with np.errstate(over="ignore"):
        wait = np.minimum(np.log1p(-draw) / math.log1p(-rails.surprise) * length, _FAR)
    if not rails.quiet:
        return np.asarray(now + wait.astype(np.int64))
    clock = OpenTime(rails.quiet)
    wait *= np.where(length >= DAY, clock.a_day / DAY, 1.0)
    begun = clock.at(now)
    soon = np.flatnonzero(wait <= clock.at(now + rails.longest * rails.unit) - begun)
    moments = np.full(len(draw), _FAR)
    moments[soon] = clock.when(begun + wait[soon].astype(np.int64))
    return moments


def _outside_quiet(
    rails: Rails, due: IntArray, earliest: IntArray, latest: IntArray, draw: FloatArray
) -> tuple[IntArray, BoolArray]:
    """Spread what falls into a quiet window over a span behind it; before it, if that is too late.

    The span is as long as the window, counted outside of all windows. An audit for which there is
    no room within the bounds takes place in its window: no rail delays one beyond the longest
    interval.
    """
    if not rails.quiet:
        return due, np.zeros(len(due), np.bool_)
    clock = OpenTime(rails.quiet)
    lengths = clock.window_lengths(due)
    inside = np.flatnonzero(lengths)
    span = np.minimum(lengths[inside], clock.a_day)
    stop = np.minimum(clock.at(due[inside]) + span, clock.at(latest[inside]))
    start = np.maximum(stop - span, clock.at(np.broadcast_to(earliest, due.shape)[inside]))
    room = stop - start
    spread = clock.when(start + (draw[inside] * room).astype(np.int64))
    moved = due.copy()
    moved[inside] = np.where(room >= MINUTE, spread, due[inside])
    return moved, moved != due


def hold_for_gas(
    rails: Rails, now: int, gas_price: int, audited: IntArray, uniforms: FloatArray
) -> tuple[BoolArray, IntArray]:
    """Return which due audits wait for cheaper gas, and until when.

    `audited` is when each holding's last audit ended; `uniforms` has two rows of numbers that are
    uniform in [0, 1). None waits beyond the longest interval, nor to its very end.
    """
    latest = audited + rails.longest * rails.unit
    dear = rails.gas_price_cap is not None and gas_price > rails.gas_price_cap
    soonest = now + rails.gas_retry // 2
    waits = dear & (soonest < latest)
    span = np.maximum(np.minimum(soonest + rails.gas_retry, latest) - soonest, 0)
    until = soonest + np.rint(uniforms[0] * span).astype(np.int64)
    return waits, _outside_quiet(rails, until, np.asarray(soonest), latest, uniforms[1])[0]
