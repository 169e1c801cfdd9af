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
    inputs, actions, rewards, ended, mask = batch
    online, _ = network(inputs)
    with torch.no_grad():
        judged, _ = target(inputs)
        best = online[1:].argmax(dim=-1, keepdim=True)
        following = judged[1:].gather(-1, best)[..., 0]
        goal = rewards + discount * torch.where(ended, 0.0, following)
    values = online[:-1].gather(-1, actions[..., None])[..., 0]
    error: Tensor = (mask * (values - goal) ** 2).sum() / mask.sum()
    return error


class PyTorchLearner(RecurrentLearner):
    """The same agent in the same loop, but deciding and updating in PyTorch."""

    def __init__(self, scenario: Scenario, seed: int, settings: RecurrentSettings) -> None:
        super().__init__(scenario, seed, settings)
        weights = networks.served(self._weights)
        self._network = Network(self.architecture, weights)
        self._judge = Network(self.architecture, weights)
        self._adam = torch.optim.Adam(self._network.parameters(), settings.learning_rate)

    def advance(self) -> Figures:
        figures = super().advance()
        if self._episodes % self._sync == 0:
            self._judge.load_state_dict(self._network.state_dict())
        return figures

    def update(self) -> float:
        drawn = [torch.from_numpy(array) for array in self._drawn()]
        losses = []
        for index in range(CHUNK):
            batch = [tensor[index] for tensor in drawn]
            error = loss(self._network, self._judge, batch, self._settings.discount)
            self._adam.zero_grad()
            error.backward()  # type: ignore[no-untyped-call]
            self._adam.step()
            losses.append(error.item())
        return float(np.mean(losses))

    def _best(self, seen: Float32Array) -> int:
        with torch.no_grad():
            hidden = torch.from_numpy(self._hidden)[None]
            outputs, hidden = self._network(torch.from_numpy(seen)[None, None], hidden)
        self._hidden = hidden[0].numpy()
        return int(outputs.argmax())
