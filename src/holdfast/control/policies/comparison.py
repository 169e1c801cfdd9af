"""Compares a version in shadow with the champion: how often they agree, and what each would cost.

Both are compared at the champion's decisions, each weighted by how long it was in force. The
intervals are bootstrap percentiles over holdings.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sqlalchemy import Connection

from holdfast.control.queries.policies import read_shadow_sums
from holdfast.durations import DAY
from holdfast.model.arrays import FloatArray
from holdfast.model.estimate import Estimate

RESAMPLES = 1000
MONTH = 30 * DAY


@dataclass(frozen=True)
class Pair:
    champion: float
    challenger: float
    difference: Estimate  # the challenger's minus the champion's


@dataclass(frozen=True)
class Comparison:
    decisions: int
    holdings: int
    span: int  # milliseconds between the first and the last
    agreement: Estimate  # share of decisions with the same choice
    interval: Pair  # units, the mean over decisions
    ratio: Pair
    gas_per_audit: Pair
    gas_per_month: Pair  # of a holding
    rails: Pair  # share of decisions that a rail replaced or clipped
    outside: Pair  # share of observations outside of what training met
    gas_change: Estimate  # of the gas a month, as a share of the champion's


def compare(connection: Connection, version: str, champion: str, *, unit: int) -> Comparison | None:
    """Return how a version compares with the champion; None if it has not run in shadow yet."""
    table = read_shadow_sums(connection, version, champion)
    if not len(table):
        return None
    first, last, sums = table[:, 0].min(), table[:, 1].max(), table[:, 3:]
    decisions, agreed, time, *both = _resample(sums).T
    sides = both[: len(both) // 2], both[len(both) // 2 :]
    means = [[part / decisions for part in side] for side in sides]
    months = [side[-1] / time * (MONTH / unit) for side in sides]
    pairs = [_pair(*both) for both in zip(*(side[:-1] for side in means), strict=True)]
    interval, ratio, gas_per_audit, rails, outside = pairs
    return Comparison(
        decisions=int(decisions[0]),
        holdings=int(table[:, 2].sum()),
        span=int(last - first),
        agreement=_estimate(agreed / decisions),
        interval=interval,
        ratio=ratio,
        gas_per_audit=gas_per_audit,
        gas_per_month=_pair(*months),
        rails=rails,
        outside=outside,
        gas_change=_estimate(months[1] / months[0] - 1),
    )


def _resample(sums: FloatArray) -> FloatArray:
    """Return the sums over all groups, followed by those of each resample."""
    return np.vstack([sums.sum(axis=0), _weights(len(sums)) @ sums])


@lru_cache(maxsize=2)  # the number of groups rarely changes; 8 MB at most
def _weights(count: int) -> FloatArray:
    """Return how often each group is drawn in each resample."""
    draws = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    places = draws + count * np.arange(RESAMPLES)[:, np.newaxis]
    weights = np.bincount(places.ravel(), minlength=RESAMPLES * count)
    return weights.reshape(RESAMPLES, count).astype(np.float64)


def _pair(champion: FloatArray, challenger: FloatArray) -> Pair:
    return Pair(float(champion[0]), float(challenger[0]), _estimate(challenger - champion))


def _estimate(figures: FloatArray) -> Estimate:
    """Return the first figure, with the interval that the others span."""
    low, high = np.percentile(figures[1:], (2.5, 97.5))
    value = float(figures[0])
    # Sums in another order differ in their last digits, and a value must lie in its interval.
    return Estimate(value, min(value, float(low)), max(value, float(high)))
