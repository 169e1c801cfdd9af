"""The policy-gradient agents estimate advantages as Schulman defines them."""

import numpy as np
import pytest
from tests.learn.worlds import VISIBLE

from holdfast.learn.policy_gradient import GradientLearner, GradientSettings


@pytest.mark.parametrize("length", [1, 2, 7])
def test_advantages_are_discounted_sums_of_errors_of_the_critic(length: int) -> None:
    settings = GradientSettings(discount=0.9, gae_lambda=0.7)
    learner = GradientLearner(VISIBLE, 0, settings)
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
    advantages = learner._advantages(rewards, values)
    np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-6)


def test_an_episode_is_padded_with_what_counts_for_nothing() -> None:
    learner = GradientLearner(VISIBLE, 0, GradientSettings())
    episode = learner._env.run_episode(10.0, lambda _inputs: 10)  # every 5 units: 6 decisions
    batch = learner._batch(episode)
    assert batch.mask.tolist() == [1, 1, 1, 1, 1, 1, 0, 0]
    assert (batch.inputs[:6] == episode.inputs[:-1]).all()
    assert abs(batch.advantages[:6].mean()) < 1e-6
    assert abs(batch.advantages[:6].std() - 1) < 1e-4
    assert (np.exp(batch.log_probs[:6]) < 1).all()
