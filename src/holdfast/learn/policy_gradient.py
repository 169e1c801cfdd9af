"""The policy-gradient agents: PPO, A2C and PPO with an adaptive price of misses.

They learn after every episode, from that episode alone.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from holdfast.learn import networks
from holdfast.learn.episode_learner import EpisodeLearner
from holdfast.learn.learner import Figures
from holdfast.learn.multiplier import Multiplier
from holdfast.learn.networks import Weights
from holdfast.learn.rollout_env import Episode
from holdfast.learn.settings import setting
from holdfast.model.action import GRID
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture, forward

CRITIC = ("critic.weight", "critic.bias")  # not part of the policy


@dataclass(frozen=True)
class GradientSettings:
    """The paper's layers, learning rate, epochs and GAE; the rest are the usual values."""

    epochs: int = 4
    # Of the probability ratio; None for the plain policy gradient.
    clip_range: float | None = setting("clip", 0.2)
    multiplier: Multiplier = Multiplier()
    inputs: Inputs = Inputs()
    features: tuple[int, ...] = (128, 128)
    learning_rate: float = 3e-4
    discount: float = 0.99  # per decision
    gae_lambda: float = setting("trace", 0.95)
    entropy_coefficient: float = setting("entropy", 0.01)
    value_coefficient: float = setting("critic", 0.5)
    max_grad_norm: float = setting("norm", 0.5)


@dataclass(frozen=True)
class _Batch:
    """An episode, in arrays of NumPy that JAX accepts."""

    inputs: Any
    actions: Any
    advantages: Any
    returns: Any
    log_probs: Any  # of every action when it was selected
    mask: Any


jax.tree_util.register_dataclass(
    _Batch, ["inputs", "actions", "advantages", "returns", "log_probs", "mask"], []
)


class GradientLearner(EpisodeLearner):
    def __init__(self, scenario: Scenario, seed: int, settings: GradientSettings) -> None:
        architecture = Architecture(settings.inputs.size, settings.features)
        super().__init__(scenario, seed, architecture, settings.inputs, settings.multiplier)
        self._settings = settings
        width = settings.features[-1]
        bound = width**-0.5
        self._set_weights(
            self._weights
            | {
                name: jnp.asarray(self._rng.uniform(-bound, bound, shape), jnp.float32)
                for name, shape in zip(CRITIC, ((width, 1), (1,)), strict=True)
            }
        )
        optimiser = optax.chain(
            optax.clip_by_global_norm(settings.max_grad_norm), optax.adam(settings.learning_rate)
        )
        self._optimiser_state = optimiser.init(self._weights)
        self._update = _make_update(self.architecture, settings, optimiser)
        self._values = jax.jit(
            lambda weights, inputs: _actor_critic(self.architecture, weights, inputs)[1]
        )

    def advance(self) -> Figures:
        """Run one episode, learn from it, and adapt the multiplier."""
        episode = self._env.run_episode(self.multiplier.value, self._select_action)
        batch = self._batch(episode)
        weights, self._optimiser_state, loss = self._update(
            self._weights, self._optimiser_state, batch
        )
        self._set_weights(weights)
        self.multiplier = self.multiplier.after(episode.misses, episode.detections)
        return episode.figures() | {
            "multiplier": self.multiplier.value,
            "loss": float(loss),
        }

    def _set_weights(self, weights: Weights) -> None:
        super()._set_weights(weights)
        for name in CRITIC:
            self._policy_weights.pop(name)

    def _select_action(self, inputs: Float32Array) -> int:
        """Sample an action by its probability (with the Gumbel-max trick)."""
        no_hidden = np.zeros((1, 0), np.float32)
        logits, _ = forward(self.architecture, self._policy_weights, inputs[np.newaxis], no_hidden)
        return int((logits[0] + self._rng.gumbel(size=GRID.size)).argmax())

    def _batch(self, episode: Episode) -> _Batch:
        """Return the episode, padded to a power of two so that few lengths are compiled."""
        length = len(episode.actions)
        padded = 1 << (length - 1).bit_length()
        inputs = np.zeros((padded + 1, episode.inputs.shape[1]), np.float32)
        inputs[: length + 1] = episode.inputs
        values = np.asarray(self._values(self._weights, inputs))[: length + 1]
        advantages = self._advantages(episode.rewards, values)
        logits, _ = forward(
            self.architecture,
            self._policy_weights,
            episode.inputs[:-1],
            np.zeros((length, 0), np.float32),
        )
        logits -= logits.max(axis=1, keepdims=True)
        log_probs = logits[np.arange(length), episode.actions]
        log_probs -= np.log(np.exp(logits).sum(axis=1))

        def pad(array: Any) -> Any:
            return np.pad(array, (0, padded - length))

        return _Batch(
            inputs=inputs[:-1],
            actions=pad(episode.actions),
            advantages=pad((advantages - advantages.mean()) / (advantages.std() + 1e-8)),
            returns=pad(advantages + values[:-1]),
            log_probs=pad(log_probs),
            mask=pad(np.ones(length, np.float32)),
        )

    def _advantages(self, rewards: Float32Array, values: Float32Array) -> Float32Array:
        """Return generalised advantage estimates; nothing follows the end of an episode."""
        settings = self._settings
        next_values = np.append(values[1:-1], np.float32(0.0))
        td_errors = rewards + settings.discount * next_values - values[:-1]
        advantages = np.empty_like(td_errors)
        advantage = np.float32(0.0)
        for index in range(len(td_errors) - 1, -1, -1):
            advantage = td_errors[index] + settings.discount * settings.gae_lambda * advantage
            advantages[index] = advantage
        return advantages


def _actor_critic(
    architecture: Architecture, weights: Weights, inputs: Array
) -> tuple[Array, Array]:
    """Return the logits of the actions, and the values of the critic."""
    features = networks.features(architecture, weights, inputs)
    values = features @ weights["critic.weight"] + weights["critic.bias"]
    return networks.head(architecture, weights, features), values[..., 0]


def _make_update(architecture: Architecture, settings: GradientSettings, optimiser: Any) -> Any:
    def loss(weights: Weights, batch: _Batch) -> Array:
        logits, values = _actor_critic(architecture, weights, batch.inputs)
        all_log_probs = jax.nn.log_softmax(logits)
        log_probs = jnp.take_along_axis(all_log_probs, batch.actions[:, None], axis=-1)[:, 0]
        if settings.clip_range is None:
            gain = log_probs * batch.advantages
        else:
            ratio = jnp.exp(log_probs - batch.log_probs)
            clipped = jnp.clip(ratio, 1 - settings.clip_range, 1 + settings.clip_range)
            gain = jnp.minimum(ratio * batch.advantages, clipped * batch.advantages)
        entropy = -jnp.sum(jnp.exp(all_log_probs) * all_log_probs, axis=-1)
        value_loss = (values - batch.returns) ** 2
        losses = (
            settings.value_coefficient * value_loss - gain - settings.entropy_coefficient * entropy
        )
        return jnp.sum(batch.mask * losses) / jnp.sum(batch.mask)

    @jax.jit
    def run(weights: Weights, optimiser_state: Any, batch: _Batch) -> Any:
        def epoch(state: Any, _: None) -> Any:
            return networks.gradient_step(optimiser, lambda w: loss(w, batch), *state)

        start = (weights, optimiser_state)
        (weights, optimiser_state), losses = jax.lax.scan(epoch, start, length=settings.epochs)
        return weights, optimiser_state, losses.mean()

    return run
