"""The lattice is a faithful, smaller picture of the belief."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.model.action import GRID
from holdfast.model.scenario import DRIFT, FIELD, PAPER, Scenario
from holdfast.policy.filter import filter_for
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.lattice import age_after_pass, lattice_of

WORLDS = pytest.mark.parametrize("world", [PAPER, DRIFT, FIELD], ids=lambda world: world.name)


@WORLDS
def test_every_action_leads_somewhere_with_probability_one(world: Scenario) -> None:
    lattice = lattice_of(world)
    assert lattice.weight.min() >= 0
    assert np.allclose(lattice.weight.sum(axis=2), 1, atol=1e-9)
    assert lattice.start.sum() == pytest.approx(1)


def test_an_audit_is_not_expected_to_change_the_opinion() -> None:
    lattice = lattice_of(PAPER)
    malice = 1 / (1 + np.exp(-np.repeat(lattice.odds, len(lattice.ages))))
    inside = np.abs(np.repeat(lattice.odds, len(lattice.ages))) < 2
    after = (lattice.weight * malice[lattice.target]).sum(axis=2)
    assert np.abs(after - malice[:, np.newaxis])[inside].max() < 1e-3


def test_the_age_after_a_pass_tells_the_mean_of_the_exact_posterior() -> None:
    bayes = filter_for(PAPER)
    actions = np.arange(GRID.size)
    belief = bayes.initial(GRID.size)
    passed = np.zeros(GRID.size, np.bool_)
    age = np.zeros(GRID.size)
    for _ in range(2):
        belief = bayes.step(belief, GRID.interval_of, PAPER.samples_of, passed)
        age = age_after_pass(PAPER, age[:, np.newaxis])[actions, actions]
    mean = belief.counts[:, 0] @ bayes.cells  # of an honest node
    fresh = PAPER.blocks * -np.expm1(age * np.log1p(-PAPER.honest_rate))
    assert mean == pytest.approx(fresh, rel=0.005)


def test_gas_alone_chooses_the_rarest_and_smallest_audit() -> None:
    lattice = lattice_of(PAPER)
    actions = lattice.solve(Ceilings(0.05).prices(np.zeros(1)))
    assert set(actions.tolist()) == {GRID.index_of(14, 0.01)}


@pytest.mark.parametrize("action", [(14, 0.20), (7, 0.20), (1, 0.10)])
def test_planned_totals_of_a_constant_are_those_of_the_papers_table(
    action: tuple[int, float],
) -> None:
    lattice = lattice_of(replace(PAPER, malicious_share=0.28))
    actions = np.full(len(lattice.start), GRID.index_of(*action))
    totals = lattice.totals(actions, lattice.visits(actions))
    gas, latency, misses = {
        (14, 0.20): (6.27, 14.73, 0.052),
        (7, 0.20): (12.31, 8.39, 0.169),
        (1, 0.10): (49.74, 2.03, 0.510),
    }[action]
    assert totals[0] == pytest.approx(gas, rel=0.002)
    assert totals[3] / totals[4] == pytest.approx(latency, rel=0.01)
    assert totals[1] / totals[2] == pytest.approx(misses, abs=0.006)
