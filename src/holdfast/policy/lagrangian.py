"""The cheapest mixture of plans within ceilings, found with Lagrange multipliers as prices.

A ceiling on a pooled ratio is a ceiling on a sum: misses - rho * encounters <= 0, and likewise for
latency. So the constrained problem is a linear programme over plans, solved by column generation:
each round plans at the current prices, then mixes all plans so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

import numpy as np

from holdfast.errors import InputError
from holdfast.model.arrays import FloatArray

# What an audit adds to an episode's totals. Waiting is the interval before an audit that meets
# corruption: summed until the detection it is the latency as the paper counts it.
COMPONENTS = ("gas", "misses", "encounters", "waiting", "detections")

# If a multiplier would have to be higher than this, the ceiling is infeasible.
HIGHEST_PRICE = 1000.0
ROUNDS = 40

# Steps of this length spread phases more evenly over [0, 1) than random ones.
GOLDEN = (5**0.5 - 1) / 2

P = TypeVar("P")


def phases(batch: int) -> FloatArray:
    """Return a phase for each node, which selects its plan in a mixture."""
    return np.asarray((0.5 + GOLDEN * np.arange(batch)) % 1.0, np.float64)


@dataclass(frozen=True)
class Ceilings:
    """The pooled miss rate and, if given, the pooled mean latency that must not be exceeded."""

    miss_rate: float
    latency: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.miss_rate < 1:
            raise InputError(f"rho must lie between 0 and 1, not at {self.miss_rate:g}")
        if self.latency is not None and not 0 < self.latency < np.inf:
            raise InputError(f"the ceiling on latency must be positive, not {self.latency:g}")

    @property
    def excess(self) -> FloatArray:
        """Return a row per ceiling; times the components it is positive above the ceiling."""
        rows = [[0.0, 1.0, -self.miss_rate, 0.0, 0.0]]
        if self.latency is not None:
            rows.append([0.0, 0.0, 0.0, 1.0, -self.latency])
        return np.array(rows)

    def prices(self, multipliers: FloatArray) -> FloatArray:
        """Return the price of each component on the Lagrangian."""
        return np.asarray([1.0, 0.0, 0.0, 0.0, 0.0] + multipliers @ self.excess, np.float64)

    def scale(self, miss_rate: float, latency: float = 1.0) -> "Ceilings":
        """Return each ceiling times its factor."""
        scale = None if self.latency is None else self.latency * latency
        return Ceilings(min(self.miss_rate * miss_rate, 0.999), scale)

    def ratios(self, totals: FloatArray) -> FloatArray:
        """Return the figure that each ceiling limits, as a share of it.

        The latency includes what stays undetected, so it is an overestimate.
        """
        _, misses, encounters, waiting, detections = totals.tolist()
        figures = [misses / max(encounters, 1e-300) / self.miss_rate]
        if self.latency is not None:
            figures.append(waiting / max(detections, 1e-300) / self.latency)
        return np.array(figures)

    def __str__(self) -> str:
        text = f"a miss rate of {self.miss_rate:.3g}"
        return text if self.latency is None else f"{text} and a latency of {self.latency:.3g}"


@dataclass(frozen=True)
class Column(Generic[P]):
    """A plan and the totals of an episode under it."""

    plan: P
    totals: FloatArray


@dataclass(frozen=True)
class Mixture(Generic[P]):
    """Plans and the share of nodes to run each on, with the totals of an episode."""

    plans: Sequence[P]
    shares: FloatArray
    totals: FloatArray
    multipliers: FloatArray


def cheapest_mixture(
    solve: Callable[[FloatArray], Column[P]], ceilings: Ceilings, known: list[Column[P]]
) -> Mixture[P]:
    """Mix the plans that `solve` returns for given prices; they are added to `known`."""
    multipliers = np.zeros(len(ceilings.excess))
    if known:
        _, multipliers = _cheapest(_totals(known), ceilings)
    for _ in range(ROUNDS):
        column = solve(ceilings.prices(multipliers))
        if any(np.allclose(column.totals, other.totals, rtol=1e-6) for other in known):
            break
        known.append(column)
        _, multipliers = _cheapest(_totals(known), ceilings)
    shares, multipliers = _cheapest(_totals(known), ceilings)
    if shares.sum() < 1 - 1e-6:
        raise InputError(_infeasible(_totals(known), ceilings))
    used = np.flatnonzero(shares > 1e-6)
    plans = [known[index].plan for index in used]
    return Mixture(plans, shares[used], shares @ _totals(known), multipliers)


def _totals(columns: Sequence[Column[P]]) -> FloatArray:
    return np.array([column.totals for column in columns])


def _cheapest(columns: FloatArray, ceilings: Ceilings) -> tuple[FloatArray, FloatArray]:
    """Solve the linear programme over known plans; return their shares and the multipliers.

    It has at most three rows (the shares sum to 1, and a ceiling each), so its optimum is found
    by trying every basis. A last, artificial column buys feasibility at the highest price.
    """
    excess = columns @ ceilings.excess.T
    plans, rows = excess.shape
    matrix = np.zeros((1 + rows, plans + rows + 1))
    matrix[0, :plans] = 1.0
    matrix[0, -1] = 1.0
    matrix[1:, :plans] = excess.T
    matrix[1:, plans:-1] = np.eye(rows)
    matrix[1:, -1] = -1.0
    cost = np.concatenate([columns[:, 0], np.zeros(rows), [HIGHEST_PRICE]])

    bases = np.array(list(combinations(range(matrix.shape[1]), 1 + rows)))
    squares = matrix[:, bases].transpose(1, 0, 2)
    regular = np.abs(np.linalg.det(squares)) > 1e-12
    bases, squares = bases[regular], squares[regular]
    target = np.zeros((len(bases), 1 + rows, 1))
    target[:, 0] = 1.0
    levels = np.linalg.solve(squares, target)[..., 0]
    values = np.where((levels >= -1e-9).all(axis=1), (levels * cost[bases]).sum(axis=1), np.inf)
    best = int(values.argmin())

    shares = np.zeros(matrix.shape[1])
    shares[bases[best]] = np.maximum(levels[best], 0.0)
    duals = np.linalg.solve(squares[best].T, cost[bases[best]])
    return shares[:plans], np.maximum(-duals[1:], 0.0)


def _infeasible(columns: FloatArray, ceilings: Ceilings) -> str:
    lowest = float((columns[:, 1] / columns[:, 2]).min())
    return (
        f"no schedule was found that stays below {ceilings}: the lowest miss rate met while"
        f" planning is {lowest:.3g}; choose higher ceilings"
    )
