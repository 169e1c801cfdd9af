"""The feed-forward value agents: DQN, double DQN, dueling DQN, and both at once (D3QN)."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holdfast.learn.epsilon_greedy import CHUNK, EpsilonGreedy, Loss
from holdfast.learn.multiplier import Multiplier
from holdfast.learn.networks import Weights, outputs
from holdfast.learn.replay_buffer import TransitionReplay
from holdfast.learn.rollout_env import Episode
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture


@dataclass(frozen=True)
class ValueSettings:
    """The paper's figures; the floor of epsilon is our choice."""

    double: bool = False
    dueling: bool = False
    multiplier: Multiplier = Multiplier()
    inputs: Inputs = Inputs()
    features: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    replay: int = 50_000  # transitions
    batch: int = 64
    discount: float = 0.99  # per decision
    sync: int = 10  # episodes between copies to the target network
    decay: float = 0.995  # of epsilon, per episode
    floor: float = 0.02


class ValueLearner(EpsilonGreedy):
    def __init__(self, scenario: Scenario, seed: int, settings: ValueSettings) -> None:
        self._settings = settings
        self._replay = TransitionReplay(settings.replay, settings.inputs.size)
        architecture = Architecture(
            inputs=settings.inputs.size,
            features=settings.features,
            head="dueling" if settings.dueling else "plain",
        )
        super().__init__(
            scenario,
            seed,
            architecture,
            settings.inputs,
            settings.multiplier,
            learning_rate=settings.learning_rate,
            sync=settings.sync,
            decay=settings.decay,
            floor=settings.floor,
        )

    def _loss(self) -> Loss:
        architecture, settings = self.architecture, self._settings

        def loss(weights: Weights, target: Weights, batch: tuple[Array, ...]) -> Array:
            inputs, actions, rewards, after, ended = batch
            values = jnp.take_along_axis(
                outputs(architecture, weights, inputs), actions[:, None], axis=-1
            )[:, 0]
            judged = outputs(architecture, target, after)
            chooser = outputs(architecture, weights, after) if settings.double else judged
            best = chooser.argmax(axis=-1, keepdims=True)
            following = jnp.take_along_axis(judged, best, axis=-1)[:, 0]
            goal = rewards + settings.discount * jnp.where(ended, 0.0, following)
            return jnp.mean((values - lax.stop_gradient(goal)) ** 2)

        return loss

    def _heard(
        self, seen: Float32Array, action: int, reward: float, after: Float32Array, ended: bool
    ) -> None:
        self._replay.add(seen, action, reward, after, ended=ended)
        if len(self._replay) >= self._settings.batch:
            self._learn()

    def _finished(self, _episode: Episode) -> None:
        """Learn nothing more: each decision was heard of already."""

    def _drawn(self) -> tuple[np.ndarray, ...]:
        drawn = self._replay.draw((CHUNK, self._settings.batch), self._draws)
        return drawn.inputs, drawn.actions, drawn.rewards, drawn.after, drawn.ended

    def _remembered(self) -> Mapping[str, np.ndarray]:
        return self._replay.saved()

    def _recall(self, memory: Mapping[str, np.ndarray]) -> None:
        self._replay.restore(memory)
