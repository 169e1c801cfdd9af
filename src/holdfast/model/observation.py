"""Observations: what a scheduler sees of a node, computed from its audit history.

Simulation and operation both call `record` and `observe`, so a policy sees in production what it
was trained on. A history holds arrays over a batch of nodes, or plain floats for one node: the
arithmetic is the same.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from holdfast.model.arrays import Float32Array, FloatArray


class Observation(NamedTuple):
    """What a scheduler sees of one node, each signal in [0, 1]; `observe` gives rows of these."""

    reputation: float
    previous_interval: float
    latency: float
    consecutive_failures: float
    pass_rate: float


OBSERVATION = Observation._fields

Value = FloatArray | float


_ONE = np.array(1.0, np.float32)  # an array: NumPy takes longer with a number


@dataclass(frozen=True)
class HistoryConstants:
    """How a history is weighted and scaled to [0, 1]."""

    # Share of the past evidence that survives one audit. These three are fitted to the paper's
    # heuristic, which relaxes at a reputation of 0.8 and hardly ever does: it spends 48.9 gas and
    # misses 50.9 % here, 49.3 and 50.4 % there. Of 18 settings tried, 3 met that row within 4 %
    # of the gas; with a memory of 0.98, or one pass and one failure, it is 45.6 or 38.1.
    reputation_memory: float = 0.9
    # Prior passes and failures that never fade: the reputation starts at their ratio.
    reputation_passes: float = 2.0
    reputation_failures: float = 2.0
    # The interval shown as 1; longer ones (an audit that was late) are shown as 1 too.
    longest_interval: float = 14.0
    # The response time in seconds shown as one half.
    latency_scale: float = 0.2
    # The number of consecutive failures shown as one half.
    failure_scale: float = 2.0


@dataclass(frozen=True)
class History:
    """A summary of a node's audits so far."""

    good: Value  # passes, with older ones weighted less
    bad: Value  # failures, with older ones weighted less
    interval: Value  # time units before the last audit; 0 before the first
    latency: Value  # seconds the last answer took; 0 before the first
    failures: Value  # consecutive failures up to now
    passes: Value
    audits: Value


def empty_history(batch: int | None = None) -> History:
    """Return the history of nodes never audited; without `batch`, of one node in plain floats."""
    if batch is None:
        return History(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    zero = np.zeros(batch)
    return History(zero, zero, zero, zero, zero, zero, zero)


def record(
    history: History, interval: Value, failed: Value, latency: Value, constants: HistoryConstants
) -> History:
    """Return the history after one more audit; `failed` is 1 or 0."""
    passed = 1.0 - failed
    return History(
        good=constants.reputation_memory * history.good + passed,
        bad=constants.reputation_memory * history.bad + failed,
        interval=interval,
        latency=latency,
        failures=(history.failures + 1.0) * failed,
        passes=history.passes + passed,
        audits=history.audits + 1.0,
    )


def observe(history: History, constants: HistoryConstants) -> Float32Array:
    """Return the observation, each signal in [0, 1]: shape (batch, 5), or (5,) for one node.

    `consecutive_failures` is above 0 exactly when the last audit failed. Before the first audit
    the reputation is its prior and the pass rate 0.5.
    """
    good = history.good + constants.reputation_passes
    bad = history.bad + constants.reputation_failures
    unaudited = history.audits == 0
    signals = (
        good / (good + bad),
        history.interval / constants.longest_interval,
        history.latency / (history.latency + constants.latency_scale),
        history.failures / (history.failures + constants.failure_scale),
        (history.passes + 0.5 * unaudited) / (history.audits + unaudited),
    )
    observation: Float32Array = np.array(signals, np.float32).T
    return np.minimum(observation, _ONE, out=observation)
