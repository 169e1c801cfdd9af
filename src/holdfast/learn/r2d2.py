"""DRQN-CMDP with stored and burned-in recurrent states, as in R2D2 (Kapturowski et al., 2019).

The paper's agent begins each sequence from a zero state, which it never meets in mid-episode when
it acts. Here a sequence begins in the state that the agent had, and the network sees some decisions
before those that it learns from, so that the state is up to date with its weights. R2D2's other
parts (priorities, targets over several steps, rescaled values) are left out: the recipe is the
paper's.
"""

from dataclasses import dataclass

import numpy as np
from jax import Array, lax
from jax import numpy as jnp

from holdfast.learn.epsilon_greedy import CHUNK, Loss
from holdfast.learn.networks import Weights, head, hidden_states
from holdfast.learn.recurrent import RecurrentLearner, RecurrentSettings
from holdfast.learn.replay_buffer import EpisodeReplay, StatefulReplay
from holdfast.learn.rollout_env import Episode
from holdfast.learn.td_target import next_q, td_target
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.network import Architecture


@dataclass(frozen=True)
class R2D2Settings(RecurrentSettings):
    burn_in: int = 8  # decisions before those of a sequence


class R2D2Learner(RecurrentLearner):
    _replay_buffer: StatefulReplay

    def __init__(self, scenario: Scenario, seed: int, settings: R2D2Settings) -> None:
        self._burn_in = settings.burn_in
        self._states: list[Float32Array] = []  # before each decision of the episode that runs
        super().__init__(scenario, seed, settings)

    def _make_replay_buffer(self, settings: RecurrentSettings) -> EpisodeReplay:
        return StatefulReplay(settings.buffer_size, settings.inputs.size, settings.recurrent)

    def _best_action(self, inputs: Float32Array) -> int:
        self._states.append(self._hidden[0].copy())
        return super()._best_action(inputs)

    def _on_episode_end(self, episode: Episode) -> None:
        states, self._states = np.array(self._states), []
        self._replay_buffer.add_with_states(
            episode.inputs, episode.actions, episode.rewards, states
        )

    def _loss(self) -> Loss:
        architecture, discount = self.architecture, self._settings.discount
        burn_in = self._burn_in

        def loss(weights: Weights, target_weights: Weights, batch: tuple[Array, ...]) -> Array:
            inputs, actions, rewards, dones, mask, hidden, starts = batch
            online_q, target_q = (
                _burned_in_q(architecture, some, inputs, hidden, starts, burn_in)
                for some in (weights, target_weights)
            )
            learned = slice(burn_in, None)
            target = td_target(
                rewards[learned], dones[learned], next_q(target_q[1:], online_q[1:]), discount
            )
            q = jnp.take_along_axis(online_q[:-1], actions[learned][..., None], axis=-1)[..., 0]
            return jnp.sum(mask[learned] * (q - target) ** 2) / jnp.sum(mask[learned])

        return loss

    def _sample_batches(self) -> tuple[np.ndarray, ...]:
        shape = (CHUNK, self._settings.batch_size)
        burned_in = self._replay_buffer.sample_burned_in(
            shape, self._burn_in, self._sequence_length, self._rng
        )
        batch = burned_in.sequences
        return (
            *(batch.inputs, batch.actions, batch.rewards, batch.dones, batch.mask),
            *(burned_in.hidden, burned_in.starts),
        )


def _burned_in_q(
    architecture: Architecture,
    weights: Weights,
    inputs: Array,
    hidden: Array,
    starts: Array,
    burn_in: int,
) -> Array:
    """Return the values of actions after the burn-in, through which no gradient flows."""
    before = hidden_states(architecture, weights, inputs[:burn_in], hidden, starts[:burn_in])
    state = lax.stop_gradient(before[-1])
    after = hidden_states(architecture, weights, inputs[burn_in:], state, starts[burn_in:])
    return head(architecture, weights, after)
