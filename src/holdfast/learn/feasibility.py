"""What can be kept in a world, and at which prices: planned in seconds, before anything is trained.

Other worlds allow other ceilings than `paper`, and other prices keep them. The planner of `belief`
knows both, so that training in a world that nobody has tuned for draws from ranges that fit it.
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

# The lowest miss rate is looked for at this price, in gas: with none, the ratio would be padded by
# sure detections at whatever they cost.
DEAR = 20.0
# Training spans ceilings from so much above the lowest miss rate up to this part of the way, by
# logarithm, to that of the cheapest audits.
ABOVE = 1.15
WAY = 0.75
LEVELS = 4  # of ceilings on misses
HASTE = (1.0, 0.7)  # ceilings on latency, as shares of that of the cheapest plan
# A network needs other prices than the planner: it is trained at so many times less and more.
WIDER = 2.5
# In the three scenarios that ship, plans that hurry by a fifth or two have prices of up to 0.022.
LATENCY_PRICE = (0.0005, 0.02)


@dataclass(frozen=True)
class Prospect:
    """Ceilings on the miss rate that a world allows, ascending, and what keeping each takes."""

    scenario: Scenario
    rho: FloatArray
    latency: FloatArray  # of the cheapest plan
    miss_price: FloatArray

    def allows(self, ceilings: Ceilings) -> bool:
        """Return whether a plan keeps these ceilings with the margins that a dial needs."""
        try:
            plan_on(lattice_of(self.scenario), _with_margins(ceilings), [])
        except InputError:
            return False
        return True

    def targets(self, wanted: Ceilings) -> tuple[Ceilings, ...]:
        """Return ceilings to offer dials for: those that are wanted, and others on all sides."""
        pairs = zip(self.rho.tolist(), self.latency.tolist(), strict=True)
        others = [
            Ceilings(round(rho, 4), round(share * latency, 2))
            for rho, latency in pairs
            for share in HASTE
        ]
        return (wanted, *others)

    def dials(self, wanted: Ceilings) -> DialRange:
        """Return where to draw ceilings and prices from, to train for all of these."""
        targets = self.targets(wanted)
        distance = np.log(self.rho / 0.05)
        slope = float(np.polyfit(distance, np.log(self.miss_price), 1)[0])
        return DialRange(
            rho=_around([each.miss_rate for each in targets], 1.1, dial.RANGES[2]),
            latency=_around(
                [each.latency for each in targets if each.latency], 1.2, dial.RANGES[3]
            ),
            miss_price=_around(self.miss_price * np.exp(-slope * distance), WIDER),
            steepness=-slope,
            latency_price=LATENCY_PRICE,
        )


def prospect(scenario: Scenario) -> Prospect:
    """Return which ceilings a world allows, by planning in it."""
    lattice, known = lattice_of(scenario), list[Column[Solution]]()
    lowest, cheapest = _ends(lattice)
    highest = max(lowest * (cheapest / lowest) ** WAY, 1.1 * ABOVE * lowest)
    rhos = np.geomspace(ABOVE * lowest, highest, LEVELS)
    found = [plan_on(lattice, Ceilings(rho), known).mixture for rho in rhos.tolist()]
    totals = np.array([mixture.totals for mixture in found])
    return Prospect(
        scenario=scenario,
        rho=rhos,
        latency=totals[:, 3] / totals[:, 4],
        miss_price=np.array([mixture.multipliers[0] for mixture in found]),
    )


def _ends(lattice: Lattice) -> tuple[float, float]:
    """Return the lowest miss rate of any plan, and that of the cheapest audits.

    The lowest ratio is found as Dinkelbach does: what minimises misses - rho * encounters at the
    lowest rho so far has a lower one, or there is none.
    """

    def miss_rate(actions: IntArray) -> float:
        totals = lattice.totals(actions, lattice.visits(actions))
        return float(totals[1] / totals[2])

    constant = np.array([miss_rate(np.full(len(lattice.start), a)) for a in range(GRID.size)])
    cost = lattice.components[0, :, 0] / GRID.interval_of
    lowest = float(constant.min())
    while True:
        found = miss_rate(lattice.solve(Ceilings(lowest).prices(np.array([DEAR]))))
        if found > 0.99 * lowest:
            return min(found, lowest), float(constant[cost.argmin()])
        lowest = found


def _with_margins(ceilings: Ceilings) -> Ceilings:
    return ceilings.scaled(1 - dial.MISS_MARGIN, 1 - dial.LATENCY_MARGIN)


def _around(
    values: FloatArray | list[float], factor: float, within: tuple[float, float] = (0.0, np.inf)
) -> tuple[float, float]:
    low, high = within
    return max(float(min(values)) / factor, low), min(float(max(values)) * factor, high)
