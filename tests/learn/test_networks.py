"""The networks that are trained decide like those that are served."""

import numpy as np
import pytest
from tests.support.checkpoints import random_weights

from holdfast.learn.networks import forward as forward_jax
from holdfast.learn.networks import initial_weights, to_numpy, unroll
from holdfast.model.arrays import Float32Array
from holdfast.policy.network import Architecture, forward, shapes

TIES = 1e-4  # outputs closer than this may rank one way or the other


def assert_alike(trained: Float32Array, serving: Float32Array) -> None:
    np.testing.assert_allclose(trained, serving, rtol=2e-5, atol=2e-5)
    highest = np.sort(serving, axis=-1)[..., -2:]
    clear = highest[..., 1] - highest[..., 0] > TIES
    assert clear.mean() > 0.99
    assert (trained.argmax(axis=-1) == serving.argmax(axis=-1))[clear].all()


@pytest.mark.parametrize("head", ["plain", "dueling"])
def test_a_network_without_memory_decides_as_it_is_served(head: str) -> None:
    architecture = Architecture(5, (64, 32), head=head)  # type: ignore[arg-type]
    weights = random_weights(architecture)
    inputs = np.random.default_rng(1).random((4000, 5), np.float32)
    serving, _ = forward(architecture, weights, inputs, np.zeros((4000, 0), np.float32))
    assert_alike(np.asarray(forward_jax(architecture, weights, inputs)), serving)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("restarting", [False, True])
def test_a_recurrent_network_remembers_and_forgets_as_it_is_served(*, restarting: bool) -> None:
    architecture = Architecture(9, (32,), recurrent=16, head="dueling")
    weights = random_weights(architecture)
    rng = np.random.default_rng(2)
    inputs = rng.random((20, 200, 9), np.float32)
    hidden = rng.normal(size=(200, 16)).astype(np.float32)
    episode_starts = rng.random((20, 200)) < 0.2 if restarting else None
    trained = unroll(architecture, weights, inputs, hidden, episode_starts)  # type: ignore[arg-type]
    outputs = []
    for now, step_inputs in enumerate(inputs):
        if episode_starts is not None:
            hidden = np.where(episode_starts[now][:, np.newaxis], np.float32(0), hidden)
        serving, hidden = forward(architecture, weights, step_inputs, hidden)
        outputs.append(serving)
    assert_alike(np.asarray(trained), np.array(outputs))


def test_first_weights_have_their_shapes_and_keep_to_their_bounds() -> None:
    architecture = Architecture(5, (64,), recurrent=16, head="dueling")
    weights = to_numpy(initial_weights(architecture, np.random.default_rng(0)))
    assert {name: array.shape for name, array in weights.items()} == shapes(architecture)
    fan_in = {"features": 5, "gru": 16, "value": 16, "advantage": 16}
    for name, array in weights.items():
        bound = fan_in[name.split(".")[0]] ** -0.5
        assert 0.7 * bound < np.abs(array).max() <= bound or array.size == 1
