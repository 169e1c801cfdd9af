"""The paper's DRQN-CMDP: a recurrent dueling double-Q agent with an adaptive price of misses."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holdfast.learn.epsilon_greedy import CHUNK, EpsilonGreedy, Loss
from holdfast.learn.multiplier import Multiplier, adaptive
from holdfast.learn.networks import Weights, unrolled
from holdfast.learn.replay_buffer import EpisodeReplay
from holdfast.learn.rollout_env import Episode
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture


@dataclass(frozen=True)
class RecurrentSettings:
    """The paper's figures; the floor of epsilon is our choice."""

    multiplier: Multiplier = adaptive()
    inputs: Inputs = Inputs()
    features: tuple[int, ...] = (128, 128)
    recurrent: int = 64
    learning_rate: float = 1e-3
    replay: int = 50_000  # decisions, in whole episodes
    batch: int = 32  # sequences
    length: int = 8  # decisions of a sequence; each starts from a zero state
    discount: float = 0.99  # per decision
    sync: int = 10  # episodes between copies to the target network
    decay: float = 0.995  # of epsilon, per episode
    floor: float = 0.02


class RecurrentLearner(EpsilonGreedy):
    def __init__(self, scenario: Scenario, seed: int, settings: RecurrentSettings) -> None:
        self._settings = settings
        self._replay = EpisodeReplay(settings.replay, settings.inputs.size)
        architecture = Architecture(
            inputs=settings.inputs.size,
            features=settings.features,
            recurrent=settings.recurrent,
            head="dueling",
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
            inputs, actions, rewards, ended, mask = batch
            nothing = jnp.zeros((inputs.shape[1], settings.recurrent))
            online = unrolled(architecture, weights, inputs, nothing)
            judged = unrolled(architecture, target, inputs, nothing)[1:]
            best = lax.stop_gradient(online[1:]).argmax(axis=-1, keepdims=True)
            following = jnp.take_along_axis(judged, best, axis=-1)[..., 0]
            goal = rewards + settings.discount * jnp.where(ended, 0.0, following)
            values = jnp.take_along_axis(online[:-1], actions[..., None], axis=-1)[..., 0]
            return jnp.sum(mask * (values - goal) ** 2) / jnp.sum(mask)

        return loss

    def _heard(
        self,
        _seen: Float32Array,
        _action: int,
        _reward: float,
        _after: Float32Array,
        _ended: bool,
    ) -> None:
        if len(self._replay) >= self._settings.batch * self._settings.length:
            self._learn()

    def _finished(self, episode: Episode) -> None:
        self._replay.add(episode.inputs, episode.actions, episode.rewards)

    def _drawn(self) -> tuple[np.ndarray, ...]:
        shape = (CHUNK, self._settings.batch)
        drawn = self._replay.draw(shape, self._settings.length, self._draws)
        return drawn.inputs, drawn.actions, drawn.rewards, drawn.ended, drawn.mask

    def _remembered(self) -> Mapping[str, np.ndarray]:
        return self._replay.saved()

    def _recall(self, memory: Mapping[str, np.ndarray]) -> None:
        self._replay.restore(memory)
