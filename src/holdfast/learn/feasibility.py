"""The ceilings that a scenario allows and the prices that keep them, planned before training.

Other scenarios allow other ceilings than `paper`, at other prices. The planner of `belief` finds
both in seconds, so training samples from ranges that fit a scenario nobody has tuned for.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.errors import InputError
from holdfast.learn.drqn_cmdp_plus import DialRange
from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.scenario import Scenario
from holdfast.policy import dial
from holdfast.policy.lagrangian import Ceilings, Column
from holdfast.policy.lattice import Lattice, lattice_of
from holdfast.policy.plan import Solution, plan_on

# The price of a miss, in gas, at which the lowest miss rate is searched. Without a price, certain
# detections at any cost would lower the ratio.
LOWEST_MISS_RATE_PRICE = 20.0
# Training covers ceilings from this factor above the lowest miss rate up to this part of the way,
# by logarithm, to that of the cheapest audits.
LOWEST_MARGIN = 1.15
SPAN = 0.75
LEVELS = 4  # of ceilings on misses
LATENCY_SHARES = (1.0, 0.7)  # ceilings on latency, as shares of that of the cheapest plan
# A network needs other prices than the planner: training goes this factor below and above.
PRICE_SPREAD = 2.5
# In the three scenarios that ship, plans with a fifth or two less latency have prices up to 0.022.
LATENCY_PRICE = (0.0005, 0.02)


@dataclass(frozen=True)
class FeasibleRange:
    """Ceilings on the miss rate that a scenario allows, ascending, and the prices for them."""

    scenario: Scenario
    rho: FloatArray
    latency: FloatArray  # of the cheapest plan
    miss_price: FloatArray

    def allows(self, ceilings: Ceilings) -> bool:
        """Return whether a plan keeps these ceilings with the margins that a dial needs."""
        try:
            plan_on(lattice_of(self.scenario), dial.with_margins(ceilings), [])
        except InputError:
            return False
        return True

    def targets(self, wanted: Ceilings) -> tuple[Ceilings, ...]:
        """Return the ceilings to offer dials for: those wanted, and others around them."""
        pairs = zip(self.rho.tolist(), self.latency.tolist(), strict=True)
        others = [
            Ceilings(round(rho, 4), round(share * latency, 2))
            for rho, latency in pairs
            for share in LATENCY_SHARES
        ]
        return (wanted, *others)

    def dials(self, wanted: Ceilings) -> DialRange:
        """Return the ranges to sample ceilings and prices from when training for all of these."""
        targets = self.targets(wanted)
        distance = np.log(self.rho / 0.05)
        slope = float(np.polyfit(distance, np.log(self.miss_price), 1)[0])
        return DialRange(
            rho=_range_around([ceilings.miss_rate for ceilings in targets], 1.1, dial.RANGES[2]),
            latency=_range_around(
                [ceilings.latency for ceilings in targets if ceilings.latency], 1.2, dial.RANGES[3]
            ),
            miss_price=_range_around(self.miss_price * np.exp(-slope * distance), PRICE_SPREAD),
            steepness=-slope,
            latency_price=LATENCY_PRICE,
        )


def feasible_range(scenario: Scenario) -> FeasibleRange:
    """Return which ceilings a scenario allows, by planning in it."""
    lattice, columns = lattice_of(scenario), list[Column[Solution]]()
    lowest, cheapest = _miss_rate_bounds(lattice)
    highest = max(lowest * (cheapest / lowest) ** SPAN, 1.1 * LOWEST_MARGIN * lowest)
    rhos = np.geomspace(LOWEST_MARGIN * lowest, highest, LEVELS)
    mixtures = [plan_on(lattice, Ceilings(rho), columns).mixture for rho in rhos.tolist()]
    totals = np.array([mixture.totals for mixture in mixtures])
    return FeasibleRange(
        scenario=scenario,
        rho=rhos,
        latency=totals[:, 3] / totals[:, 4],
        miss_price=np.array([mixture.multipliers[0] for mixture in mixtures]),
    )


def _miss_rate_bounds(lattice: Lattice) -> tuple[float, float]:
    """Return the lowest miss rate of any plan, and that of the cheapest audits.

    The lowest ratio is found with Dinkelbach's method: the plan that minimises
    misses - rho * encounters at the lowest rho so far has a lower one, or there is none.
    """

    def miss_rate(actions: IntArray) -> float:
        totals = lattice.totals(actions, lattice.visits(actions))
        return float(totals[1] / totals[2])

    constant = np.array([miss_rate(np.full(len(lattice.start), a)) for a in range(GRID.size)])
    cost = lattice.components[0, :, 0] / GRID.interval_of
    lowest = float(constant.min())
    while True:
        achieved = miss_rate(
            lattice.solve(Ceilings(lowest).prices(np.array([LOWEST_MISS_RATE_PRICE])))
        )
        if achieved > 0.99 * lowest:
            return min(achieved, lowest), float(constant[cost.argmin()])
        lowest = achieved


def _range_around(
    values: FloatArray | list[float], factor: float, bounds: tuple[float, float] = (0.0, np.inf)
) -> tuple[float, float]:
    low, high = bounds
    return max(float(min(values)) / factor, low), min(float(max(values)) * factor, high)
