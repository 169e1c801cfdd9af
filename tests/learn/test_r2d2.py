"""Sequences begin in the state that the agent had, and any decision can be learned from."""

from dataclasses import replace

import numpy as np
import pytest
from jax import numpy as jnp
from tests.learn.worlds import VISIBLE

from holdfast.learn.networks import unroll
from holdfast.learn.r2d2 import R2D2Learner, R2D2Settings, _burned_in_q

SETTINGS = replace(R2D2Settings(), features=(16,), recurrent=8, batch_size=16)


@pytest.fixture
def learner() -> R2D2Learner:
    """Return an agent with episodes in its buffer and no update made."""
    learner = R2D2Learner(VISIBLE, 0, replace(SETTINGS, batch_size=10_000))
    for _ in range(6):
        learner.advance()
    learner._settings = SETTINGS
    return learner


@pytest.mark.parametrize("burn_in", [1, 3, 8])
def test_a_burned_in_state_is_the_state_of_the_whole_episode(
    learner: R2D2Learner, burn_in: int
) -> None:
    learner._burn_in = burn_in
    inputs, _, _, _, mask, hidden, starts = (array[0] for array in learner._sample_batches())
    q = _burned_in_q(learner.architecture, learner._weights, inputs, hidden, starts, burn_in)
    buffer = learner._replay_buffer
    compared = 0
    for start, length in zip(buffer._starts, buffer._lengths, strict=True):
        slots = (start + np.arange(length + 1)) % buffer._size
        whole = np.asarray(
            unroll(
                learner.architecture,
                learner._weights,
                jnp.asarray(buffer._inputs[slots][:, None]),
                jnp.zeros((1, 8)),
            )
        )[:, 0]
        for column in range(inputs.shape[1]):
            learned = inputs[burn_in:, column][mask[burn_in:, column].nonzero()[0]]
            for offset in range(length - len(learned) + 1):
                if np.array_equal(buffer._inputs[slots][offset : offset + len(learned)], learned):
                    expected = whole[offset : offset + len(learned)]
                    got = q[: len(learned), column]
                    if np.allclose(got, expected, rtol=1e-4, atol=1e-5):
                        compared += 1
    assert compared >= inputs.shape[1], "every sequence is a part of an episode, with its state"


def test_the_first_decisions_are_learned_from_as_well(learner: R2D2Learner) -> None:
    batches = learner._sample_batches()
    starts = batches[-1]
    at = starts.any(axis=1)
    assert at.any(), "some sequences have the start of an episode in them"
    first = starts.argmax(axis=1)[at]
    assert (first == SETTINGS.burn_in).any(), "and some learn from the very first decision"


def test_it_resumes_with_its_states(learner: R2D2Learner) -> None:
    other = R2D2Learner(VISIBLE, 1, SETTINGS)
    other.restore(learner.state())
    for mine, theirs in zip(learner._sample_batches(), other._sample_batches(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
