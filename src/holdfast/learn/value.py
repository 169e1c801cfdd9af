"""The feed-forward value agents: DQN, double DQN, dueling DQN, and both at once (D3QN)."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.learn.epsilon_greedy import CHUNK, EpsilonGreedy, Loss, ValueBasedSettings
from holdfast.learn.networks import Weights, forward
from holdfast.learn.replay_buffer import TransitionReplay
from holdfast.learn.rollout_env import Episode
from holdfast.learn.td_target import next_q, td_target
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.network import Architecture


@dataclass(frozen=True)
class ValueSettings(ValueBasedSettings):
    """The paper's figures; the final epsilon is our choice. Transitions fill the replay buffer."""

    double: bool = False
    dueling: bool = False


class ValueLearner(EpsilonGreedy):
    _replay_buffer: TransitionReplay

    def __init__(self, scenario: Scenario, seed: int, settings: ValueSettings) -> None:
        self._double = settings.double
        architecture = Architecture(
            inputs=settings.inputs.size,
            features=settings.features,
            head="dueling" if settings.dueling else "plain",
        )
        replay_buffer = TransitionReplay(settings.buffer_size, settings.inputs.size)
        super().__init__(scenario, seed, architecture, settings, replay_buffer)

    def _loss(self) -> Loss:
        architecture, discount, double = self.architecture, self._settings.discount, self._double

        def loss(weights: Weights, target_weights: Weights, batch: tuple[Array, ...]) -> Array:
            inputs, actions, rewards, next_inputs, dones = batch
            q = jnp.take_along_axis(
                forward(architecture, weights, inputs), actions[:, None], axis=-1
            )[:, 0]
            target_q = forward(architecture, target_weights, next_inputs)
            selecting_q = forward(architecture, weights, next_inputs) if double else target_q
            target = td_target(rewards, dones, next_q(target_q, selecting_q), discount)
            return jnp.mean((q - target) ** 2)

        return loss

    def _on_step(
        self,
        inputs: Float32Array,
        action: int,
        reward: float,
        next_inputs: Float32Array,
        done: bool,
    ) -> None:
        self._replay_buffer.add(inputs, action, reward, next_inputs, done=done)
        if len(self._replay_buffer) >= self._settings.batch_size:
            self._update_when_due()

    def _on_episode_end(self, episode: Episode) -> None:
        """Do nothing: every transition is in the replay buffer already."""

    def _sample_batches(self) -> tuple[np.ndarray, ...]:
        batch = self._replay_buffer.sample((CHUNK, self._settings.batch_size), self._rng)
        return batch.inputs, batch.actions, batch.rewards, batch.next_inputs, batch.dones
