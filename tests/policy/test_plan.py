"""A plan does what it was planned to do."""

import numpy as np
import pytest

from holdfast.model.scenario import DRIFT, PAPER
from holdfast.policy.belief import BeliefPolicy
from holdfast.policy.filter import reduced_filter
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.lattice import lattice_of
from holdfast.policy.plan import plan_on
from holdfast.policy.plan_rollout import mean_totals


@pytest.mark.slow
def test_a_mixture_of_unlike_solutions_costs_and_misses_what_was_planned() -> None:
    plan = plan_on(lattice_of(DRIFT), Ceilings(0.042), [])
    assert 0.2 < plan.mixture.shares.max() < 0.8
    bayes = reduced_filter(DRIFT)
    policy = BeliefPolicy(DRIFT, bayes, plan)
    totals = mean_totals(policy, bayes, 1000, np.random.default_rng(8))
    assert totals[0] == pytest.approx(plan.mixture.totals[0], rel=0.03)
    assert totals[1] / totals[2] == pytest.approx(0.042, abs=0.003)


@pytest.mark.slow
def test_between_its_grid_points_a_plan_follows_the_nearest() -> None:
    plan = plan_on(lattice_of(PAPER), Ceilings(0.05), [])
    phase = np.zeros(1)
    at = plan.action(plan.odds[40:41], plan.ages[5:6], phase)
    near = plan.action(plan.odds[40:41] + 0.04, plan.ages[5:6] + 1e-3, phase)
    assert at == near == plan.actions[0, 40, 5]
    beyond = plan.action(np.array([99.0]), np.array([1e4]), phase)
    assert beyond == plan.actions[0, -1, -1]
