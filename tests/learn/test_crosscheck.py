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


def differentiated(agent: Any, target: Any, batch: Any) -> tuple[float, dict[str, np.ndarray]]:
    value, gradient = jax.value_and_grad(agent._loss())(agent._weights, target, batch)
    return float(value), networks.served(gradient)


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in found.items():
        scale = np.abs(expected[name]).max()
        assert scale > 0
        np.testing.assert_allclose(array, expected[name], rtol=RTOL, atol=RTOL * scale)


def test_the_recurrent_update_is_pytorchs() -> None:
    from holdfast.bench import pytorch  # noqa: PLC0415 - needs torch

    settings = RecurrentSettings()
    agent, other = (RecurrentLearner(PAPER, seed, settings) for seed in (0, 1))
    for _ in range(8):
        agent._finished(agent._stage.play(10.0, lambda _: int(agent._draws.integers(25))))
    batch = [array[0] for array in agent._drawn()]
    value, gradient = differentiated(agent, other._weights, batch)

    network, target = (
        pytorch.Network(each.architecture, networks.served(each._weights))
        for each in (agent, other)
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


@pytest.mark.parametrize("double", [False, True])
def test_the_feed_forward_update_is_pytorchs(*, double: bool) -> None:
    settings = ValueSettings(double=double)
    agent, other = (ValueLearner(PAPER, seed, settings) for seed in (0, 1))
    agent._stage.play(10.0, lambda _: int(agent._draws.integers(25)), agent._heard)
    drawn = agent._replay.draw((1, 64), agent._draws)
    names = ("inputs", "actions", "rewards", "after", "ended")
    batch = [getattr(drawn, name)[0] for name in names]
    value, gradient = differentiated(agent, other._weights, batch)

    inputs, actions, rewards, after, ended = (torch.from_numpy(array) for array in batch)
    online, target = (
        {
            name: torch.from_numpy(array.copy()).requires_grad_()
            for name, array in networks.served(each._weights).items()
        }
        for each in (agent, other)
    )

    def judged(weights: Any, seen: Any) -> Any:
        for layer in ("features.0", "features.1"):
            seen = torch.relu(seen @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"])
        return seen @ weights["action.weight"] + weights["action.bias"]

    with torch.no_grad():
        following = judged(target, after)
        best = judged(online if double else target, after).argmax(dim=1, keepdim=True)
        goal = rewards + 0.99 * torch.where(ended, 0.0, following.gather(1, best)[:, 0])
    chosen = judged(online, inputs).gather(1, actions[:, None])[:, 0]
    error = torch.nn.functional.mse_loss(chosen, goal)
    error.backward()
    assert value == pytest.approx(error.item(), rel=RTOL)
    assert_close(gradient, {name: tensor.grad.numpy() for name, tensor in online.items()})
