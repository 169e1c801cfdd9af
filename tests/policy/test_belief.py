"""The belief policy keeps its ceilings at little gas, and learns from what was really done."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import put, take
from holdfast.model.scenario import DRIFT, FIELD, PAPER, Scenario
from holdfast.policy.belief import BeliefPolicy, BeliefState, belief_policy
from holdfast.policy.filter import reduced_filter
from holdfast.policy.interface import FAILURES
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.plan_rollout import mean_totals
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import Measures, measure

CHEAP = Ceilings(0.05)
SWIFT = Ceilings(0.045, 7.5)


@pytest.fixture(scope="module")
def policy() -> BeliefPolicy:
    return belief_policy(PAPER, CHEAP)


def measured(scenario: Scenario, ceilings: Ceilings, episodes: int) -> Measures:
    policy = belief_policy(scenario, ceilings)
    return measure(evaluate(policy, scenario, episodes=episodes, seed=501), resamples=2)


def observed(failed: np.ndarray) -> np.ndarray:
    observations = np.full((len(failed), 5), 0.5)
    observations[:, FAILURES] = failed
    return observations


def after_outcomes(policy: BeliefPolicy, state: BeliefState, *outcomes: bool) -> BeliefState:
    for failed in outcomes:
        _, state = policy.act(state, observed(np.full(len(state.age), failed)))
    return state


@pytest.mark.slow
def test_fresh_episodes_stay_inside_the_ceiling_at_the_gas_of_the_target() -> None:
    seen = measured(PAPER, CHEAP, 5000)
    assert seen.miss_rate.value <= 0.05
    assert seen.gas.value <= 5.75


@pytest.mark.slow
def test_a_ceiling_on_latency_is_kept_together_with_the_other() -> None:
    seen = measured(PAPER, SWIFT, 5000)
    assert seen.miss_rate.value <= 0.045
    assert seen.latency.value <= 7.5
    assert seen.gas.value <= 6.7


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize(("world", "rho"), [(DRIFT, 0.1), (FIELD, 0.8)])
def test_ceilings_are_kept_where_the_lattice_is_an_approximation(
    world: Scenario, rho: float
) -> None:
    assert measured(world, Ceilings(rho), 1500).miss_rate.value <= rho


@pytest.mark.slow
def test_a_rollout_predicts_the_simulation(policy: BeliefPolicy) -> None:
    bayes = reduced_filter(PAPER)
    totals = mean_totals(policy, bayes, 2000, np.random.default_rng(5))
    seen = measured(PAPER, CHEAP, 2000)
    assert totals[0] == pytest.approx(seen.gas.value, rel=0.01)
    assert totals[3] / totals[4] == pytest.approx(seen.latency.value, rel=0.02)
    assert totals[1] / totals[2] == pytest.approx(seen.miss_rate.value, abs=0.003)


def test_unlike_histories_lead_to_unlike_audits(policy: BeliefPolicy) -> None:
    """A malicious node is known by failing small samples, and then needs no large ones."""
    small = np.array([GRID.index_of(3, 0.03)])
    state = policy.initial_state(1)
    convicted, cleared = state, state
    for _ in range(4):
        convicted = after_outcomes(
            policy, policy.replace_actions(after_outcomes(policy, convicted), small), True
        )
        cleared = after_outcomes(
            policy, policy.replace_actions(after_outcomes(policy, cleared), small), False
        )
    assert policy.bayes.malice(convicted.belief)[0] > 0.99
    assert policy.bayes.malice(cleared.belief)[0] < 0.01
    assert GRID.ratio_of[convicted.action[0]] <= 0.05
    assert cleared.age[0] > convicted.age[0] == 0


def test_what_was_carried_out_counts_and_not_what_was_chosen(policy: BeliefPolicy) -> None:
    chosen = after_outcomes(policy, policy.initial_state(1), False)
    other = np.array([GRID.index_of(1, 0.01)])
    assert chosen.action[0] != other[0]
    believed = after_outcomes(policy, chosen, True)
    corrected = after_outcomes(policy, policy.replace_actions(chosen, other), True)
    # One day and one percent find little on an honest node: such a failure is strong evidence.
    assert policy.bayes.malice(corrected.belief)[0] > policy.bayes.malice(believed.belief)[0]


def test_nodes_are_decided_alike_in_any_company(policy: BeliefPolicy) -> None:
    rng = np.random.default_rng(2)
    together = policy.initial_state(30)
    some, others = np.arange(30) % 3 == 0, np.arange(30) % 3 != 0
    apart = together
    for _ in range(6):
        seen = observed(rng.random(30) < 0.5)
        actions, together = policy.act(together, seen)
        mine, first = policy.act(take(apart, some), seen[some])
        theirs, second = policy.act(take(apart, others), seen[others])
        apart = put(put(apart, some, first), others, second)
        assert (actions[some] == mine).all()
        assert (actions[others] == theirs).all()


def test_new_nodes_can_join_a_batch_of_known_ones(policy: BeliefPolicy) -> None:
    known = after_outcomes(policy, policy.initial_state(2), False, True)
    batch = put(policy.initial_state(3), np.array([0, 2]), known)
    _, after = policy.act(batch, observed(np.array([True, True, True])))
    malice = policy.bayes.malice(after.belief)
    assert malice[1] == pytest.approx(PAPER.malicious_share)
    assert malice[0] != pytest.approx(PAPER.malicious_share)


@pytest.mark.slow
def test_ten_thousand_nodes_are_decided_in_one_call(policy: BeliefPolicy) -> None:
    state = after_outcomes(policy, policy.initial_state(10_000), False)
    actions, _ = policy.act(state, observed(np.arange(10_000) % 2 == 0))
    assert actions.shape == (10_000,)


@pytest.mark.slow
def test_a_ceiling_out_of_reach_is_refused() -> None:
    with pytest.raises(InputError, match="belief in scenario field: no schedule"):
        belief_policy(FIELD, Ceilings(0.05))


@pytest.mark.slow
def test_a_world_without_malice_or_without_faults_can_be_planned_too() -> None:
    small = replace(PAPER, blocks=100, horizon=60)
    for world in (
        replace(small, malicious_share=0.0),
        replace(small, honest_rate=0.0),
        replace(small, honest_rate=0.0, malicious_rate=0.0),
    ):
        policy = belief_policy(world, Ceilings(0.9))
        actions, _ = policy.act(policy.initial_state(1), observed(np.array([False])))
        assert 0 <= actions[0] < GRID.size
