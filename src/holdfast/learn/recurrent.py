"""The paper's DRQN-CMDP: a recurrent dueling double-Q agent with an adaptive price of misses."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.learn.epsilon_greedy import CHUNK, EpsilonGreedy, Loss, ValueBasedSettings
from holdfast.learn.multiplier import Multiplier, adaptive
from holdfast.learn.networks import Weights, unroll
from holdfast.learn.replay_buffer import EpisodeReplay
from holdfast.learn.rollout_env import Episode
from holdfast.learn.settings import setting
from holdfast.learn.td_target import next_q, td_target
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.network import Architecture


@dataclass(frozen=True)
class RecurrentSettings(ValueBasedSettings):
    """The paper's figures; the final epsilon is our choice. Whole episodes fill the buffer."""

    multiplier: Multiplier = adaptive()
    recurrent: int = 64
    batch_size: int = setting("batch", 32)  # sequences
    sequence_length: int = setting("length", 8)  # decisions; every sequence starts from zero state


class RecurrentLearner(EpsilonGreedy):
    _replay_buffer: EpisodeReplay

    def __init__(self, scenario: Scenario, seed: int, settings: RecurrentSettings) -> None:
        self._sequence_length = settings.sequence_length
        architecture = Architecture(
            inputs=settings.inputs.size,
            features=settings.features,
            recurrent=settings.recurrent,
            head="dueling",
        )
        replay_buffer = self._make_replay_buffer(settings)
        super().__init__(scenario, seed, architecture, settings, replay_buffer)

    def _make_replay_buffer(self, settings: RecurrentSettings) -> EpisodeReplay:
        return EpisodeReplay(settings.buffer_size, settings.inputs.size)

    def _loss(self) -> Loss:
        architecture, discount = self.architecture, self._settings.discount

        def loss(weights: Weights, target_weights: Weights, batch: tuple[Array, ...]) -> Array:
            inputs, actions, rewards, dones, mask = batch
            hidden = jnp.zeros((inputs.shape[1], architecture.recurrent))
            online_q = unroll(architecture, weights, inputs, hidden)
            target_q = unroll(architecture, target_weights, inputs, hidden)
            target = td_target(rewards, dones, next_q(target_q[1:], online_q[1:]), discount)
            q = jnp.take_along_axis(online_q[:-1], actions[..., None], axis=-1)[..., 0]
            return jnp.sum(mask * (q - target) ** 2) / jnp.sum(mask)

        return loss

    def _on_step(
        self,
        _inputs: Float32Array,
        _action: int,
        _reward: float,
        _next_inputs: Float32Array,
        _done: bool,
    ) -> None:
        if len(self._replay_buffer) >= self._settings.batch_size * self._sequence_length:
            self._update_when_due()

    def _on_episode_end(self, episode: Episode) -> None:
        self._replay_buffer.add(episode.inputs, episode.actions, episode.rewards)

    def _sample_batches(self) -> tuple[np.ndarray, ...]:
        shape = (CHUNK, self._settings.batch_size)
        batch = self._replay_buffer.sample(shape, self._sequence_length, self._rng)
        return batch.inputs, batch.actions, batch.rewards, batch.dones, batch.mask
