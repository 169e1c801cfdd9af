"""Loss and gradient are those that PyTorch computes from the same weights and the same batch."""

from typing import Any

import jax
import numpy as np
import pytest
from tests.support import parts

from holdfast.learn import networks
from holdfast.learn.recurrent import RecurrentLearner, RecurrentSettings
from holdfast.learn.value import ValueLearner, ValueSettings
from holdfast.model.scenario import PAPER

torch = parts.package("torch")

RTOL = 1e-4


def loss_and_gradient(agent: Any, target: Any, batch: Any) -> tuple[float, dict[str, np.ndarray]]:
    value, gradient = jax.value_and_grad(agent._loss())(agent._weights, target, batch)
    return float(value), networks.to_numpy(gradient)


def assert_close(gradients: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert gradients.keys() == expected.keys()
    for name, array in gradients.items():
        scale = np.abs(expected[name]).max()
        assert scale > 0
        np.testing.assert_allclose(array, expected[name], rtol=RTOL, atol=RTOL * scale)


@pytest.mark.slow
def test_the_recurrent_update_is_pytorchs() -> None:
    from benchmarks import pytorch  # noqa: PLC0415 - needs torch

    settings = RecurrentSettings()
    agent, other = (RecurrentLearner(PAPER, seed, settings) for seed in (0, 1))
    for _ in range(8):
        agent._on_episode_end(agent._env.run_episode(10.0, lambda _: int(agent._rng.integers(25))))
    batch = [array[0] for array in agent._sample_batches()]
    value, gradient = loss_and_gradient(agent, other._weights, batch)

    network, target = (
        pytorch.Network(learner.architecture, networks.to_numpy(learner._weights))
        for learner in (agent, other)
    )
    error = pytorch.loss(
        network, target, [torch.from_numpy(array) for array in batch], settings.discount
    )
    error.backward()  # type: ignore[no-untyped-call]
    assert value == pytest.approx(error.item(), rel=RTOL)
    assert_close(
        gradient,
        {
            pytorch.ours(name): parameter.grad.numpy().T
            for name, parameter in network.named_parameters()
            if parameter.grad is not None
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize("double", [False, True])
def test_the_feed_forward_update_is_pytorchs(*, double: bool) -> None:
    settings = ValueSettings(double=double)
    agent, other = (ValueLearner(PAPER, seed, settings) for seed in (0, 1))
    agent._env.run_episode(10.0, lambda _: int(agent._rng.integers(25)), agent._on_step)
    sample = agent._replay_buffer.sample((1, 64), agent._rng)
    names = ("inputs", "actions", "rewards", "next_inputs", "dones")
    batch = [getattr(sample, name)[0] for name in names]
    value, gradient = loss_and_gradient(agent, other._weights, batch)

    inputs, actions, rewards, next_inputs, dones = (torch.from_numpy(array) for array in batch)
    online, target = (
        {
            name: torch.from_numpy(array.copy()).requires_grad_()
            for name, array in networks.to_numpy(learner._weights).items()
        }
        for learner in (agent, other)
    )

    def q_values(weights: Any, features: Any) -> Any:
        for layer in ("features.0", "features.1"):
            features = torch.relu(features @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"])
        return features @ weights["action.weight"] + weights["action.bias"]

    with torch.no_grad():
        next_q = q_values(target, next_inputs)
        best = q_values(online if double else target, next_inputs).argmax(dim=1, keepdim=True)
        td_target = rewards + 0.99 * torch.where(dones, 0.0, next_q.gather(1, best)[:, 0])
    q = q_values(online, inputs).gather(1, actions[:, None])[:, 0]
    error = torch.nn.functional.mse_loss(q, td_target)
    error.backward()
    assert value == pytest.approx(error.item(), rel=RTOL)
    assert_close(gradient, {name: tensor.grad.numpy() for name, tensor in online.items()})
