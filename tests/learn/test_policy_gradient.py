"""The policy-gradient agents estimate advantages as Schulman defines them."""

import numpy as np
import pytest
from tests.learn.worlds import VISIBLE

from holdfast.learn.policy_gradient import (
    GradientLearner,
    GradientSettings,
    RecurrentGradientSettings,
    advantages,
    log_softmax,
)
from holdfast.model.arrays import Float32Array
from holdfast.policy.network import forward


@pytest.mark.parametrize("length", [1, 2, 7])
def test_advantages_are_discounted_sums_of_errors_of_the_critic(length: int) -> None:
    rng = np.random.default_rng(length)
    rewards = rng.normal(size=length).astype(np.float32)
    values = rng.normal(size=length + 1).astype(np.float32)
    next_values = [*values[1:-1].tolist(), 0.0]  # nothing follows the end
    expected = [
        sum(
            (0.9 * 0.7) ** (later - now)
            * (rewards[later] + 0.9 * next_values[later] - values[later])
            for later in range(now, length)
        )
        for now in range(length)
    ]
    estimates = advantages(rewards, values, 0.9, 0.7)
    np.testing.assert_allclose(estimates, expected, rtol=1e-5, atol=1e-6)


def test_an_episode_is_padded_with_what_counts_for_nothing() -> None:
    learner = GradientLearner(VISIBLE, 0, GradientSettings())
    episode = learner._env.run_episode(10.0, lambda _inputs: 10)  # every 5 units: 6 decisions
    batch = learner._batch(episode)
    assert batch.mask.tolist() == [1, 1, 1, 1, 1, 1, 0, 0]
    assert (batch.inputs[:6] == episode.inputs[:-1]).all()
    assert abs(batch.advantages[:6].mean()) < 1e-6
    assert abs(batch.advantages[:6].std() - 1) < 1e-4
    assert (np.exp(batch.log_probs[:6]) < 1).all()


def test_a_recurrent_policy_learns_from_what_it_saw_when_it_acted() -> None:
    settings = RecurrentGradientSettings(features=(16,), recurrent=8)
    learner = GradientLearner(VISIBLE, 0, settings)
    probabilities: list[float] = []
    select_action = learner._sampler.begin(learner.policy_weights())
    hidden = np.zeros((1, 8), np.float32)

    def watch(inputs: Float32Array) -> int:
        nonlocal hidden
        logits, hidden = forward(
            learner.architecture, learner.policy_weights(), inputs[np.newaxis], hidden
        )
        action = select_action(inputs)
        probabilities.append(float(log_softmax(logits)[0, action]))
        return action

    batch = learner._batch(learner._env.run_episode(10.0, watch))
    length = len(probabilities)
    np.testing.assert_allclose(batch.log_probs[:length], probabilities, rtol=1e-4, atol=1e-5)
