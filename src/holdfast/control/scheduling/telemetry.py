"""Telemetry: what audits have shown about each holding, and how fresh that is.

An audit has one of six outcomes. Only the first four say something about the data: a node that
can't be reached has not lost it.
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property

import numpy as np

from holdfast.control.scheduling.guardrails import Rails
from holdfast.evidence.leaf import Outcome
from holdfast.model.arrays import BoolArray, Float32Array, FloatArray, IntArray, put, take
from holdfast.model.observation import History, HistoryConstants, empty_history, observe, record

LOSSES = frozenset({Outcome.FAILED, Outcome.ADMITTED})  # these show that data is lost
FAILURES = LOSSES | {Outcome.TIMED_OUT}
TEACHING = FAILURES | {Outcome.PASSED}
FIELDS = len(History.__dataclass_fields__) + 1  # and the passes since the last failure
HISTORY_BYTES = 8 * FIELDS
NEVER_FAILED = math.inf


def empty_history_bytes() -> bytes:
    """Return the history of a holding that was never audited, as it is stored."""
    return np.array([*astuple(empty_history()), NEVER_FAILED]).tobytes()


@dataclass(frozen=True)
class Telemetry:
    """What is known about a batch of holdings."""

    history: History
    constants: HistoryConstants
    observed: IntArray  # when an audit last showed something; for a new holding, when it was added
    news: BoolArray  # whether the last audit did
    passes: FloatArray  # in a row since the last failure

    @classmethod
    def stored(
        cls,
        histories: Sequence[bytes],
        constants: HistoryConstants,
        observed: IntArray,
        news: BoolArray,
    ) -> "Telemetry":
        """Read histories; one that is damaged counts as no news from a holding never audited."""
        if {*map(len, histories)} - {HISTORY_BYTES}:
            news = news & [len(history) == HISTORY_BYTES for history in histories]
            histories = [
                history if len(history) == HISTORY_BYTES else empty_history_bytes()
                for history in histories
            ]
        table = np.frombuffer(b"".join(histories), np.float64).reshape(-1, FIELDS)
        *history, passes = table.T
        return cls(History(*history), constants, observed, news, passes)

    def rows(self) -> list[bytes]:
        table = np.column_stack([*astuple(self.history), self.passes])
        return [row.tobytes() for row in table]

    @cached_property
    def unaudited(self) -> BoolArray:
        return np.asarray(np.equal(self.history.audits, 0.0), np.bool_)

    @cached_property
    def observation(self) -> Float32Array:
        return observe(self.history, self.constants)

    def sound(self, rails: Rails, now: int) -> BoolArray:
        """Return which telemetry is neither missing nor stale."""
        age = now - self.observed
        fresh = (age >= 0) & (age <= rails.stale_after * rails.unit)
        return np.asarray(self.news & fresh, np.bool_)

    def recovering(self, rails: Rails) -> BoolArray:
        """Return which holdings had a failure and too few passes since."""
        return np.asarray(self.passes < rails.recovery_passes, np.bool_)

    def after(
        self, now: int, outcomes: Sequence[Outcome], interval: FloatArray, latency: FloatArray
    ) -> "Telemetry":
        """Return the telemetry after one more audit of each holding."""
        taught = np.array([outcome in TEACHING for outcome in outcomes], np.bool_)
        failed = np.array([outcome is not Outcome.PASSED for outcome in outcomes], np.float64)
        which = np.flatnonzero(taught)
        history = self.history
        if len(which):
            updated = record(
                take(history, which), interval[which], failed[which], latency[which], self.constants
            )
            history = updated if len(which) == len(taught) else put(history, which, updated)
        passes = np.where(failed > 0, 0.0, self.passes + 1.0)
        return replace(
            self,
            history=history,
            observed=np.where(taught, now, self.observed),
            news=taught,
            passes=np.where(taught, passes, self.passes),
        )
