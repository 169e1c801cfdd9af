"""The interface between the training loop and every agent."""

from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.learn.multiplier import Multiplier
from holdfast.model.arrays import Float32Array
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture

Figures = dict[str, float]  # the metrics of one unit of training, for curves and TensorBoard


@dataclass(frozen=True)
class TrainerState:
    """Everything an agent needs to resume: pytrees of arrays, and values that JSON can hold."""

    trees: dict[str, Any]
    facts: dict[str, Any]


class Learner(Protocol):
    architecture: Architecture
    inputs: Inputs

    @property
    def multiplier(self) -> Multiplier | None:
        """The price of misses; None if prices are inputs of the network."""
        ...

    def advance(self) -> Figures:
        """Train for one unit: an episode, or a round of many nodes."""
        ...

    def policy_weights(self) -> dict[str, Float32Array]:
        """Return the weights that select actions."""
        ...

    def envelope(self) -> tuple[Float32Array, Float32Array]:
        """Return the lowest and the highest value of every signal observed so far."""
        ...

    def state(self) -> TrainerState: ...

    def restore(self, state: TrainerState) -> None:
        """Continue from this state exactly as if training had never been interrupted."""
        ...
