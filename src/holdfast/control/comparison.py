"""A version in shadow beside the champion: how often they agree, and what each would cost.

Both are seen at the champion's decisions, each of which counts for as long as it was in force. The
intervals are bootstrap percentiles over holdings. Where either had to begin its state anew, which
brings the fail-safe once, nothing is compared.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Engine, and_, case, func, select

from holdfast.control.database import transaction
from holdfast.control.rails import DAY, FAIL_SAFE, Override
from holdfast.control.schema import shadow_decisions
from holdfast.model.arrays import FloatArray
from holdfast.sim.measures import Estimate

RESAMPLES = 1000
MONTH = 30 * DAY
RAILS = int(FAIL_SAFE | Override.SHORTEST | Override.LONGEST)


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


def compare(engine: Engine, version: str, champion: str, *, unit: int) -> Comparison | None:
    """Return how a version does beside the champion, None if it has not been there yet."""
    query = _query(version, champion)
    with transaction(engine) as connection:
        rows = connection.execute(query).all()
    if not rows:
        return None
    table = np.array([tuple(row) for row in rows], np.float64)
    first, last, sums = table[:, 0].min(), table[:, 1].max(), table[:, 2:]
    drawn = _drawn(sums)
    decisions, agreed, time, *both = drawn.T
    sides = both[: len(both) // 2], both[len(both) // 2 :]
    means = [[part / decisions for part in side] for side in sides]
    months = [side[-1] / time * (MONTH / unit) for side in sides]
    pairs = [_pair(*each) for each in zip(*(side[:-1] for side in means), strict=True)]
    interval, ratio, gas_per_audit, rails, outside = pairs
    return Comparison(
        decisions=int(decisions[0]),
        holdings=len(rows),
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


def _query(version: str, champion: str) -> Any:
    """Return one row of sums a holding."""
    at = shadow_decisions.c
    fair = at.overrides.bitwise_or(at.champion_overrides).bitwise_and(int(Override.STATE)) == 0
    return (
        select(
            func.min(at.at),
            func.max(at.at),
            func.count(),
            func.sum(case((at.chosen == at.champion_chosen, 1), else_=0)),
            func.sum(at.champion_interval),
            *_sums("champion_"),
            *_sums(""),
        )
        .where(and_(at.version == version, at.champion == champion, fair))
        .group_by(at.holding)
        .order_by(at.holding)
    )


def _sums(side: str) -> list[ColumnElement[Any]]:
    at = shadow_decisions.c
    interval, ratio, gas, overrides = (
        at[side + name] for name in ("interval", "ratio", "gas", "overrides")
    )

    def met(flags: int) -> ColumnElement[int]:
        return case((overrides.bitwise_and(flags) != 0, 1), else_=0)

    terms = (
        *(interval, ratio, gas, met(RAILS), met(int(Override.ENVELOPE))),
        gas / interval * at.champion_interval,
    )
    return [func.sum(term) for term in terms]


def _drawn(sums: FloatArray) -> FloatArray:
    """Return the sums over all holdings, and below them those of each resample."""
    draws = np.random.default_rng(0)
    count = len(sums)
    rows = [sums.sum(axis=0)]
    for _ in range(RESAMPLES):
        weights = np.bincount(draws.integers(count, size=count), minlength=count)
        rows.append(weights @ sums)
    return np.array(rows)


def _pair(champion: FloatArray, challenger: FloatArray) -> Pair:
    return Pair(float(champion[0]), float(challenger[0]), _estimate(challenger - champion))


def _estimate(figures: FloatArray) -> Estimate:
    """Return the first figure, with the interval that the others span."""
    low, high = np.percentile(figures[1:], (2.5, 97.5))
    value = float(figures[0])
    # Sums in another order differ in their last digits: a constant lies in its own interval.
    return Estimate(value, min(value, float(low)), max(value, float(high)))
