"""The DRQN of `learn.recurrent` in PyTorch: the reference that its speed is measured against."""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.learn import networks
from holdfast.learn.epsilon_greedy import CHUNK
from holdfast.learn.learner import Figures
from holdfast.learn.recurrent import RecurrentLearner, RecurrentSettings
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.network import Architecture, Parameters


class Network(nn.Module):
    """The dueling recurrent network, with given weights."""

    def __init__(self, architecture: Architecture, parameters: Parameters) -> None:
        super().__init__()
        widths = (architecture.inputs, *architecture.features)
        self.features = nn.ModuleList(nn.Linear(*sizes) for sizes in pairwise(widths))
        self.gru = nn.GRU(widths[-1], architecture.recurrent)
        self.value = nn.Linear(architecture.recurrent, 1)
        self.advantage = nn.Linear(architecture.recurrent, architecture.outputs)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(torch.from_numpy(parameters[ours(name)].T.copy()))

    def forward(self, seen: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the outputs along sequences, (time, batch, outputs), and the last state."""
        for layer in self.features:
            seen = torch.relu(layer(seen))
        states, last = self.gru(seen, hidden)
        advantage = self.advantage(states)
        return self.value(states) + advantage - advantage.mean(dim=-1, keepdim=True), last


def ours(name: str) -> str:
    """Return our name of a parameter of the network."""
    gates = {"ih": "input", "hh": "hidden"}
    if name.startswith("gru"):
        kind, which, _ = name.removeprefix("gru.").split("_")
        return f"gru.{gates[which]}.{kind}"
    return name


def loss(network: Network, target: Network, batch: list[Tensor], discount: float) -> Tensor:
    """Return the masked double-Q error of a batch of sequences."""
    inputs, actions, rewards, dones, mask = batch
    online_q, _ = network(inputs)
    with torch.no_grad():
        target_q, _ = target(inputs)
        best = online_q[1:].argmax(dim=-1, keepdim=True)
        next_q = target_q[1:].gather(-1, best)[..., 0]
        td_target = rewards + discount * torch.where(dones, 0.0, next_q)
    q = online_q[:-1].gather(-1, actions[..., None])[..., 0]
    error: Tensor = (mask * (q - td_target) ** 2).sum() / mask.sum()
    return error


class PyTorchLearner(RecurrentLearner):
    """The same agent in the same loop, but selecting actions and updating in PyTorch."""

    def __init__(self, scenario: Scenario, seed: int, settings: RecurrentSettings) -> None:
        super().__init__(scenario, seed, settings)
        weights = networks.to_numpy(self._weights)
        self._network = Network(self.architecture, weights)
        self._target_network = Network(self.architecture, weights)
        self._adam = torch.optim.Adam(self._network.parameters(), settings.learning_rate)

    def advance(self) -> Figures:
        figures = super().advance()
        if self._episodes % self._settings.target_update_interval == 0:
            self._target_network.load_state_dict(self._network.state_dict())
        return figures

    def update(self) -> float:
        batches = [torch.from_numpy(array) for array in self._sample_batches()]
        losses = []
        for index in range(CHUNK):
            batch = [tensor[index] for tensor in batches]
            error = loss(self._network, self._target_network, batch, self._settings.discount)
            self._adam.zero_grad()
            error.backward()  # type: ignore[no-untyped-call]
            self._adam.step()
            losses.append(error.item())
        return float(np.mean(losses))

    def _best_action(self, inputs: Float32Array) -> int:
        with torch.no_grad():
            hidden = torch.from_numpy(self._hidden)[None]
            q, hidden = self._network(torch.from_numpy(inputs)[None, None], hidden)
        self._hidden = hidden[0].numpy()
        return int(q.argmax())
