"""FOCOPS prices costs apart from rewards, and stops where the policy has moved far enough."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from tests.learn.worlds import VISIBLE

from holdfast.learn.focops import COST_CRITIC, FocopsLearner, FocopsSettings, _loss, costs_of
from holdfast.learn.multiplier import Multiplier
from holdfast.learn.networks import to_numpy

SETTINGS = replace(FocopsSettings(), features=(16,))


@pytest.mark.parametrize("ceiling", [0.05, 0.5])
def test_costs_add_up_to_nothing_exactly_at_the_ceiling(ceiling: float) -> None:
    learner = FocopsLearner(VISIBLE, 0, SETTINGS)
    for _ in range(5):
        episode = learner._env.run_episode(0.0, lambda _inputs: 0)
        encounters = episode.misses + episode.detections
        expected = episode.misses - ceiling * encounters
        assert costs_of(episode, ceiling).sum() == pytest.approx(expected, abs=1e-4)


def test_rewards_hold_no_price_of_misses() -> None:
    returns = {
        FocopsLearner(
            VISIBLE, 0, replace(SETTINGS, multiplier=Multiplier(price, max_value=2.0))
        ).advance()["return"]
        for price in (0.0, 2.0)
    }
    assert len(returns) == 1


def test_a_decision_that_moved_too_far_is_left_out() -> None:
    learner = FocopsLearner(VISIBLE, 0, SETTINGS)
    episode = learner._env.run_episode(0.0, learner._sampler.begin(learner.policy_weights()))
    batch = learner._batch(episode)
    other = FocopsLearner(VISIBLE, 1, SETTINGS)._weights
    for bound, moves in ((0.0, False), (1e9, True)):
        loss = _loss(learner.architecture, replace(SETTINGS, max_divergence=bound))
        gradient = to_numpy(jax.grad(loss)(other, batch))
        assert bool(np.any(gradient["action.weight"])) is moves
        assert np.any(gradient[COST_CRITIC[0]]), "critics learn from all decisions"


def test_at_the_policy_that_acted_the_gradient_is_the_policy_gradient() -> None:
    learner = FocopsLearner(VISIBLE, 0, replace(SETTINGS, value_coefficient=0.0))
    episode = learner._env.run_episode(0.0, learner._sampler.begin(learner.policy_weights()))
    batch = learner._batch(episode)
    loss = _loss(learner.architecture, replace(SETTINGS, value_coefficient=0.0))
    gradient = to_numpy(jax.grad(loss)(learner._weights, batch))["action.bias"]
    probabilities = np.exp(batch.log_probs)
    chosen = np.eye(probabilities.shape[1])[batch.actions] - probabilities
    weights = batch.mask * batch.advantages / SETTINGS.temperature
    expected = -(weights[:, None] * chosen).sum(axis=0) / batch.mask.sum()
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)
