"""What the training loop asks of every agent."""

from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.learn.multiplier import Multiplier
from holdfast.model.arrays import Float32Array
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture

Figures = dict[str, float]  # what one unit of training came to, for curves and events


@dataclass(frozen=True)
class TrainerState:
    """All that an agent is between two units of training: trees of arrays, and JSON."""

    trees: dict[str, Any]
    facts: dict[str, Any]


class Learner(Protocol):
    architecture: Architecture
    inputs: Inputs

    @property
    def multiplier(self) -> Multiplier | None:
        """The price of misses; None where prices are inputs."""
        ...

    def advance(self) -> Figures:
        """Train for one unit, an episode or a round of many nodes."""
        ...

    def served(self) -> dict[str, Float32Array]:
        """Return the weights that decide."""
        ...

    def envelope(self) -> tuple[Float32Array, Float32Array]:
        """Return the lowest and the highest value of each signal observed so far."""
        ...

    def saved(self) -> TrainerState: ...

    def restore(self, goods: TrainerState) -> None:
        """Become what was saved: from here on the agent trains as if never interrupted."""
        ...
