"""The `clairvoyant` reference: it knows type and corruption before every decision.

It solves a Markov decision process over time, type and corruption count, backwards from the
horizon. Its gas is a lower bound for every scheduler at the same ceilings. The bound is exact if
the rate of a node never changes (`paper`); otherwise modes are averaged by their prior.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.scenario import Scenario
from holdfast.model.truth import Truth
from holdfast.policy.count_bins import reduced_counts
from holdfast.policy.filter import BayesFilter
from holdfast.policy.hidden_states import modes_of
from holdfast.policy.lagrangian import (
    COMPONENTS,
    Ceilings,
    Column,
    Mixture,
    cheapest_mixture,
    phases,
)

# Known counts need fewer cells than a filter: the gas planned for `paper` is the same to 0.1 %.
WIDENING = 1.1


@dataclass(frozen=True, eq=False)
class ClairvoyantState:
    solution: IntArray  # index of the mixed solution that the node follows for the whole episode
    elapsed: IntArray
    interval: IntArray  # chosen last; 0 before the first


@dataclass(frozen=True, eq=False)
class Clairvoyant:
    scenario: Scenario
    cells: IntArray
    mixture: Mixture[IntArray]  # of actions by (time, type, cell)
    privileged: ClassVar[Literal[True]] = True

    def initial_state(self, batch: int) -> ClairvoyantState:
        cumulative_shares = np.cumsum(self.mixture.shares)[:-1]
        solution = np.searchsorted(cumulative_shares, phases(batch), side="right")
        zero = np.zeros(batch, np.int64)
        return ClairvoyantState(solution, zero, zero)

    def act(
        self,
        state: ClairvoyantState,
        observations: FloatArray,  # noqa: ARG002 - the interface names it
        truth: Truth,
    ) -> tuple[IntArray, ClairvoyantState]:
        elapsed = state.elapsed + state.interval
        time = np.minimum(elapsed, self.scenario.horizon - 1)
        cell = np.searchsorted((self.cells[1:] + self.cells[:-1]) / 2, truth.corrupted)
        tables = np.array(self.mixture.plans)
        actions = tables[state.solution, time, truth.malicious.astype(np.int64), cell]
        return actions, replace(state, elapsed=elapsed, interval=GRID.interval_of[actions])

    def replace_actions(self, state: ClairvoyantState, actions: IntArray) -> ClairvoyantState:
        return replace(state, interval=GRID.interval_of[actions])


@dataclass(frozen=True, eq=False)
class KnownProcess:
    """The decision process when nothing is hidden, by type (honest, malicious) and cell."""

    growth: FloatArray  # (types, intervals, cells, cells)
    passing: FloatArray  # (ratios, cells)
    components: FloatArray  # (types, cells, actions, COMPONENTS): what the next audit adds
    type_transitions: FloatArray  # (intervals, types, types): from type to type over an interval
    start: FloatArray  # (types,)
    horizon: int

    def solve(self, prices: FloatArray) -> Column[IntArray]:
        """Return the best actions by (time, type, cell), by backward induction.

        The recursion carries the components of the cost to go rather than their priced sum, so
        that it gives the totals of an episode as well.
        """
        types, intervals, cells, _ = self.growth.shape
        ahead = np.array(GRID.intervals)
        shape = (self.horizon + ahead.max(), types, cells, len(COMPONENTS))
        to_go = np.zeros(shape)
        plan = np.zeros(shape[:3], np.int64)[: self.horizon]
        for time in reversed(range(self.horizon)):
            later = np.einsum("izy,iyck->zick", self.type_transitions, to_go[time + ahead])
            passed = self.growth @ (
                self.passing.T[:, :, np.newaxis] * later[:, :, :, np.newaxis]
            ).reshape(types, intervals, cells, -1)
            passed = passed.reshape(types, intervals, cells, -1, len(COMPONENTS))
            detected = self._detection_probability()[..., np.newaxis] * later[:, :, :1, np.newaxis]
            after = (passed + detected).transpose(0, 2, 1, 3, 4)
            total = self.components + after.reshape(self.components.shape)
            plan[time] = (total @ prices).argmin(axis=2)
            chosen = plan[time][:, :, np.newaxis, np.newaxis]
            to_go[time] = np.take_along_axis(total, chosen, axis=2)[:, :, 0]
        return Column(plan, self.start @ to_go[0, :, 0])

    def _detection_probability(self) -> FloatArray:
        """Return the probability of a detection: (types, intervals, cells, ratios)."""
        return np.asarray(1.0 - self.growth @ self.passing.T, np.float64)


def known_process(scenario: Scenario, cells: IntArray) -> KnownProcess:
    growth = np.array([_growth(scenario, cells, malicious) for malicious in (False, True)])
    sampled = scenario.samples_of[: len(GRID.ratios), np.newaxis]
    passing = 1.0 - scenario.detection_probability(cells[np.newaxis], sampled)
    passed = (growth @ passing.T).transpose(0, 2, 1, 3).reshape(2, len(cells), GRID.size)
    clean = growth[:, :, :, 0].transpose(0, 2, 1).repeat(len(GRID.ratios), axis=2)
    waiting = GRID.interval_of * (1 - clean)
    gas = np.broadcast_to(scenario.gas_of, clean.shape)
    transition = np.array(
        [
            [1 - scenario.turn_malicious, scenario.turn_malicious],
            [scenario.turn_honest, 1 - scenario.turn_honest],
        ]
    )
    return KnownProcess(
        growth=growth,
        passing=passing,
        components=np.stack([gas, passed - clean, 1 - clean, waiting, 1 - passed], axis=-1),
        type_transitions=np.array(
            [np.linalg.matrix_power(transition, units) for units in GRID.intervals]
        ),
        start=np.array([1 - scenario.malicious_share, scenario.malicious_share]),
        horizon=scenario.horizon,
    )


def _growth(scenario: Scenario, cells: IntArray, malicious: bool) -> FloatArray:
    """Return how corruption grows over each interval, from each cell, on a node of the type."""
    fixed_types = replace(scenario, turn_malicious=0.0, turn_honest=0.0)
    bayes = BayesFilter(fixed_types, modes_of(fixed_types), cells)
    belief = bayes.initial(len(cells))
    counts = np.zeros_like(belief.counts)
    counts[np.arange(len(cells)), :, np.arange(len(cells))] = 1.0
    prior = np.log(np.maximum(bayes.modes.prior_within(malicious), 1e-300))
    log_weights = np.broadcast_to(prior, belief.log_weights.shape)
    belief = replace(belief, counts=counts, log_weights=log_weights)
    waits = [np.full(len(cells), interval) for interval in GRID.intervals]
    return np.array([bayes.count(bayes.predict(belief, wait)) for wait in waits])


@lru_cache(maxsize=8)
def clairvoyant(scenario: Scenario, ceilings: Ceilings) -> Clairvoyant:
    """Return the reference with the least gas within the ceilings, without a margin."""
    cells = reduced_counts(scenario.blocks, WIDENING)
    mixture = cheapest_mixture(known_process(scenario, cells).solve, ceilings, [])
    return Clairvoyant(scenario, cells, mixture)
