"""The random numbers of the operator's world: what each decides, and by which number it is keyed.

Draws are keyed by node, generation (a replaced node is another one), and the number of the event,
so that events come to a node at the same times whoever audits it, and however often.
"""

from enum import IntEnum
from statistics import NormalDist

import numpy as np

from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.operation import Operation, Range

EVENTS = 1 << 20  # numbers of a generation; recurrences take the upper half
RECURRENCES = EVENTS // 2
AUDITS = 1 << 40  # above all events
TICKS_PER_DAY = 1024

_NORMAL = NormalDist()


class Cause(IntEnum):
    """What a draw decides."""

    HAZARD = 0
    CHEATS = 1
    CHEATING_RATE = 2
    WAIT = 3
    KIND = 4
    RECURS = 5
    RECURS_AFTER = 6
    SIZE = 7
    ROTS = 8
    ROT_RATE = 9
    AUDIT = 10
    CURE = 11
    PHASE = 12


def event_number(generation: IntArray, event: IntArray) -> IntArray:
    return generation * EVENTS + event


def audit_number(time: FloatArray) -> IntArray:
    return AUDITS + np.rint(time * TICKS_PER_DAY).astype(np.int64)


def log_uniform(uniform: FloatArray, between: Range) -> FloatArray:
    low, high = between
    return np.asarray(low * (high / low) ** uniform)


def hazards(scenario: Operation, own: FloatArray, provider: FloatArray) -> FloatArray:
    """Return log-uniform hazards with mean 1; `provider` is equal for nodes of one provider.

    The two parts are added as normal scores, which leaves the distribution as it is.
    """
    share = scenario.provider_share
    if share > 0:
        scores = share**0.5 * _scores(provider) + (1 - share) ** 0.5 * _scores(own)
        own = np.array([_NORMAL.cdf(score) for score in scores.tolist()])
    return np.asarray(scenario.least_hazard * scenario.hazard_spread**own)


def _scores(uniform: FloatArray) -> FloatArray:
    clipped = np.clip(uniform, 2.0**-53, 1 - 2.0**-53)
    return np.array([_NORMAL.inv_cdf(number) for number in clipped.tolist()])
