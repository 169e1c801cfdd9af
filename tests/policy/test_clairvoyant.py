"""The clairvoyant reference is the lower bound it claims to be."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.model.action import GRID
from holdfast.model.scenario import DRIFT, PAPER, Scenario
from holdfast.model.truth import Truth
from holdfast.policy.belief import belief_policy
from holdfast.policy.clairvoyant import clairvoyant
from holdfast.policy.lagrangian import Ceilings
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import measure

HIDDEN = np.zeros((1, 5))


@pytest.mark.slow
def test_the_bound_on_gas_lies_where_it_was_calibrated() -> None:
    reference = clairvoyant(PAPER, Ceilings(0.05))
    assert 4.6 <= reference.mixture.totals[0] <= 5.0
    assert reference.mixture.totals[1] / reference.mixture.totals[2] == pytest.approx(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("world", "rho"), [(PAPER, 0.05), (DRIFT, 0.1)])
def test_episodes_cost_and_miss_what_was_planned(world: Scenario, rho: float) -> None:
    reference = clairvoyant(world, Ceilings(rho))
    seen = measure(evaluate(reference, world, episodes=2000, seed=502), resamples=2)
    assert seen.gas.value == pytest.approx(reference.mixture.totals[0], rel=0.02)
    assert seen.miss_rate.value == pytest.approx(rho, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("ceilings", [Ceilings(0.05), Ceilings(0.045, 7.5)])
def test_nobody_who_sees_less_needs_less_gas(ceilings: Ceilings) -> None:
    bound = clairvoyant(PAPER, ceilings).mixture.totals[0]
    assert bound < belief_policy(PAPER, ceilings).plan.mixture.totals[0]


def test_it_spends_large_samples_on_honest_nodes_alone() -> None:
    reference = clairvoyant(PAPER, Ceilings(0.05))
    state = reference.initial_state(1)
    honest, _ = reference.act(state, HIDDEN, Truth(np.array([False]), np.array([0])))
    malicious, _ = reference.act(state, HIDDEN, Truth(np.array([True]), np.array([0])))
    assert GRID.action(honest[0]) == (14, 0.20)
    assert GRID.ratio_of[malicious[0]] <= 0.03


def test_it_takes_a_smaller_sample_where_more_is_corrupted() -> None:
    reference = clairvoyant(PAPER, Ceilings(0.05))
    truth = Truth(np.array([False, False]), np.array([0, 40]))
    actions, _ = reference.act(reference.initial_state(2), np.zeros((2, 5)), truth)
    assert GRID.ratio_of[actions[1]] < GRID.ratio_of[actions[0]]


def test_the_recursion_equals_a_decision_tree_of_a_tiny_world() -> None:
    """One audit ends the episode: the best of 25 actions can be picked by hand."""
    world = replace(PAPER, blocks=3, horizon=1, malicious_share=1.0)
    reference = clairvoyant(world, Ceilings(0.9))
    gas = float(world.gas_of.min())
    assert reference.mixture.totals[0] == pytest.approx(gas)


def test_time_passes_as_it_was_carried_out() -> None:
    reference = clairvoyant(PAPER, Ceilings(0.05))
    truth = Truth(np.array([False]), np.array([0]))
    _, state = reference.act(reference.initial_state(1), HIDDEN, truth)
    state = reference.replace_actions(state, np.array([GRID.index_of(1, 0.10)]))
    _, state = reference.act(state, HIDDEN, truth)
    assert state.elapsed[0] == 1
