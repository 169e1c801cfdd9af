"""The `belief` policy: a Bayes filter estimates each node's state, a plan chooses the action."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray, put, take
from holdfast.model.scenario import Scenario
from holdfast.policy.filter import BayesFilter, Belief, filter_for, reduced_filter
from holdfast.policy.interface import last_failed
from holdfast.policy.lagrangian import GOLDEN, Ceilings, Column, phases
from holdfast.policy.lattice import age_after_pass, lattice_of
from holdfast.policy.plan import Plan, Solution, plan_on
from holdfast.policy.plan_rollout import mean_totals

NOTHING_YET = -1

# Simulated figures must stay this far below the ceilings. The miss rate of 5,000 episodes of
# `paper` has a relative standard deviation of 0.8 %, the latency 0.1 %; a rollout about the same.
MISS_MARGIN = 0.03
LATENCY_MARGIN = 0.01
MAX_PLANS = 5
# Fewer episodes where the filter is larger, so that a rollout takes a few seconds at most.
ROLLOUT_EPISODES = (1000, 4000)
MAX_ROLLOUT_CELLS = 2_000_000
ROLLOUT_SEED = 20_230
# A plan is close enough if its figures are above this share of the target. A correction aims at the
# middle of that range, by a smaller step each time, so that it can't oscillate.
CLOSE_ENOUGH = 0.97
MIDDLE = 0.985
DAMPING = 0.8


@dataclass(frozen=True, eq=False)
class BeliefState:
    belief: Belief
    age: FloatArray  # of the corruption: see `lattice`
    phase: FloatArray  # in [0, 1): which of the mixed plans comes next
    action: IntArray  # the last one; NOTHING_YET before the first audit


@dataclass(frozen=True, eq=False)
class BeliefPolicy:
    scenario: Scenario
    bayes: BayesFilter
    plan: Plan
    privileged: ClassVar[Literal[False]] = False

    def initial_state(self, batch: int) -> BeliefState:
        return BeliefState(
            belief=self.bayes.initial(batch),
            age=np.zeros(batch),
            phase=phases(batch),
            action=np.full(batch, NOTHING_YET),
        )

    def act(self, state: BeliefState, observations: FloatArray) -> tuple[IntArray, BeliefState]:
        audited = state.action != NOTHING_YET
        if audited.all():
            state = self._learn(state, observations)
        elif audited.any():
            updated = self._learn(take(state, audited), observations[audited])
            state = put(state, audited, updated)
        actions = self.plan.action(self.bayes.log_odds(state.belief), state.age, state.phase)
        return actions, replace(state, phase=(state.phase + GOLDEN) % 1.0, action=actions)

    def replace_actions(self, state: BeliefState, actions: IntArray) -> BeliefState:
        return replace(state, action=actions)

    def _learn(self, state: BeliefState, observations: FloatArray) -> BeliefState:
        """Return the state after the outcome of the last audit, as the observation shows it."""
        failed = last_failed(observations)
        intervals = GRID.interval_of[state.action]
        sampled = self.scenario.samples_of[state.action]
        after_pass = age_after_pass(self.scenario, state.age[:, np.newaxis])
        passed = after_pass[np.arange(len(failed)), state.action]
        return replace(
            state,
            belief=self.bayes.step(state.belief, intervals, sampled, failed),
            age=np.where(failed, 0.0, passed),
        )


@lru_cache(maxsize=32)
def belief_policy(scenario: Scenario, ceilings: Ceilings) -> BeliefPolicy:
    """Return the policy of least gas that stays below the ceilings, with a margin.

    The lattice leaves out bursts and rates that differ within a type, so every plan is simulated,
    and planned again with corrected ceilings until it comes close to the margin from below. The
    cheapest plan that kept the margin wins.
    """
    target = ceilings.scale(1 - MISS_MARGIN, 1 - LATENCY_MARGIN)
    aim, step = target, 1.0
    lattice, columns = lattice_of(scenario), list[Column[Solution]]()
    best: tuple[float, Plan] | None = None
    for _ in range(MAX_PLANS):
        try:
            plan = plan_on(lattice, aim, columns)
        except InputError as error:
            raise InputError(f"belief in scenario {scenario.name}: {error}") from error
        totals = _simulated_totals(scenario, plan)
        ratios = target.ratios(totals)
        if ratios.max() <= 1 and (best is None or totals[0] < best[0]):
            best = totals[0], plan
        binding = (ratios > 1) | (plan.mixture.multipliers > 0)
        if np.all(~binding | ((ratios <= 1) & (ratios > CLOSE_ENOUGH))):
            break
        aim = aim.scale(*np.where(binding, (MIDDLE / ratios) ** step, 1.0))
        step *= DAMPING
    if best is None:
        raise InputError(
            f"no plan for scenario {scenario.name} stayed below {ceilings} in simulation:"
            " choose higher ceilings"
        )
    return BeliefPolicy(scenario, filter_for(scenario), best[1])


def _simulated_totals(scenario: Scenario, plan: Plan) -> FloatArray:
    """Return the mean totals of episodes under the plan, always with the same seed."""
    bayes = reduced_filter(scenario)
    episodes = np.clip(MAX_ROLLOUT_CELLS // bayes.initial(1).counts.size, *ROLLOUT_EPISODES)
    rng = np.random.default_rng(ROLLOUT_SEED)
    return mean_totals(BeliefPolicy(scenario, bayes, plan), bayes, int(episodes), rng)
