"""Plans: the next audit for given log odds of malice and age of the corruption.

A plan is the mixture of lattice solutions that costs the least gas within its ceilings. It must be
a mixture because ceilings lie between what pure solutions reach.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.policy.lagrangian import Ceilings, Column, Mixture, cheapest_mixture
from holdfast.policy.lattice import Lattice


@dataclass(frozen=True, eq=False)
class Solution:
    """The best action at each point of the lattice, and how often an episode visits it."""

    actions: IntArray
    visits: FloatArray


@dataclass(frozen=True, eq=False)
class Plan:
    """Actions by log odds and age; where solutions are mixed, the node's phase chooses one."""

    odds: FloatArray
    ages: FloatArray
    actions: IntArray  # (solutions, odds, ages)
    cumulative_shares: FloatArray  # (solutions, odds): the first one above the phase decides
    mixture: Mixture[Solution]

    def action(self, odds: FloatArray, ages: FloatArray, phase: FloatArray) -> IntArray:
        i, j = _nearest(self.odds, odds), _nearest(self.ages, ages)
        solution = np.count_nonzero(phase >= self.cumulative_shares[:-1, i], axis=0)
        return np.asarray(self.actions[solution, i, j], np.int64)


def plan_on(lattice: Lattice, ceilings: Ceilings, known: list[Column[Solution]]) -> Plan:
    """Return the plan with the least gas within the ceilings; new solutions go into `known`."""

    def column(actions: IntArray) -> Column[Solution]:
        visits = lattice.visits(actions)
        return Column(Solution(actions, visits), lattice.totals(actions, visits))

    if not known:  # constant actions: prices then start from a realistic mixture
        known += [column(np.full(len(lattice.start), a)) for a in range(GRID.size)]
    mixture = cheapest_mixture(lambda prices: column(lattice.solve(prices)), ceilings, known)
    return Plan(
        odds=lattice.odds,
        ages=lattice.ages,
        actions=np.array(
            [
                solution.actions.reshape(len(lattice.odds), len(lattice.ages))
                for solution in mixture.plans
            ]
        ),
        cumulative_shares=np.cumsum(_decision_shares(lattice, mixture), axis=0),
        mixture=mixture,
    )


def _decision_shares(lattice: Lattice, mixture: Mixture[Solution]) -> FloatArray:
    """Return which share of the decisions at given log odds follows each solution.

    The mixture is meant by nodes, so a solution that decides more often has more of the decisions.
    How often it does depends on the type, of which the log odds tell the probability.
    """
    malicious = 1 / (1 + np.exp(-lattice.odds))
    by_type = np.stack([1 - malicious, malicious])
    visits = np.array(
        [solution.visits.reshape(len(lattice.odds), -1).sum(axis=1) for solution in mixture.plans]
    )
    decisions = mixture.shares[:, np.newaxis] * (visits @ by_type.T)
    return np.asarray((decisions / decisions.sum(axis=0)) @ by_type, np.float64)


def _nearest(grid: FloatArray, values: FloatArray) -> IntArray:
    return np.searchsorted((grid[1:] + grid[:-1]) / 2, values)
