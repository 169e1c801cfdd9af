"""The policy-gradient agents: PPO and A2C, with or without a GRU and an adaptive price of misses.

They learn after every episode, from that episode alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
from holdfast.learn.rollout_env import Episode, SelectAction
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
class RecurrentGradientSettings(GradientSettings):
    recurrent: int = 64  # units of a GRU, which sees each episode from its start


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
        architecture = Architecture(
            settings.inputs.size,
            settings.features,
            recurrent=settings.recurrent if isinstance(settings, RecurrentGradientSettings) else 0,
        )
        super().__init__(scenario, seed, architecture, settings.inputs, settings.multiplier)
        self._settings = settings
        self._set_weights(self._weights | initial_critic(architecture, self._rng, CRITIC))
        optimiser = make_optimiser(settings.max_grad_norm, settings.learning_rate)
        self._optimiser_state = optimiser.init(self._weights)
        self._update = _make_update(self.architecture, settings, optimiser)
        self._evaluate = jax.jit(
            lambda weights, inputs: _actor_critic(self.architecture, weights, inputs)
        )
        self._sampler = ActionSampler(architecture, self._rng)

    def advance(self) -> Figures:
        """Run one episode, learn from it, and adapt the multiplier."""
        select_action = self._sampler.begin(self._policy_weights)
        episode = self._env.run_episode(self.multiplier.value, select_action)
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

    def _batch(self, episode: Episode) -> _Batch:
        settings, length = self._settings, len(episode.actions)
        inputs = padded_inputs(episode)
        logits, values = (np.asarray(array) for array in self._evaluate(self._weights, inputs))
        gains = advantages(
            episode.rewards, values[: length + 1], settings.discount, settings.gae_lambda
        )
        pad = partial(pad_to, len(inputs) - 1)
        return _Batch(
            inputs=inputs[:-1],
            actions=pad(episode.actions),
            advantages=pad((gains - gains.mean()) / (gains.std() + 1e-8)),
            returns=pad(gains + values[:length]),
            log_probs=pad(log_softmax(logits[:length])[np.arange(length), episode.actions]),
            mask=pad(np.ones(length, np.float32)),
        )


class ActionSampler:
    """Samples actions by their probabilities along an episode, with the Gumbel-max trick."""

    def __init__(self, architecture: Architecture, rng: np.random.Generator) -> None:
        self._architecture, self._rng = architecture, rng

    def begin(self, weights: dict[str, Float32Array]) -> SelectAction:
        """Return what selects the actions of one episode."""
        hidden = np.zeros((1, self._architecture.recurrent), np.float32)

        def select_action(inputs: Float32Array) -> int:
            nonlocal hidden
            logits, hidden = forward(self._architecture, weights, inputs[np.newaxis], hidden)
            return int((logits[0] + self._rng.gumbel(size=GRID.size)).argmax())

        return select_action


def make_optimiser(max_grad_norm: float, learning_rate: float) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(max_grad_norm), optax.adam(learning_rate))


def initial_critic(
    architecture: Architecture, rng: np.random.Generator, names: tuple[str, str]
) -> Weights:
    """Return weight and bias of a critic, drawn as those of other layers."""
    width = architecture.recurrent or architecture.features[-1]
    bound = width**-0.5
    return {
        name: jnp.asarray(rng.uniform(-bound, bound, shape), jnp.float32)
        for name, shape in zip(names, ((width, 1), (1,)), strict=True)
    }


def trunk(architecture: Architecture, weights: Weights, inputs: Array) -> Array:
    """Return what heads and critics see along one episode: features, or the states of the GRU."""
    if not architecture.recurrent:
        return networks.features(architecture, weights, inputs)
    hidden = jnp.zeros((1, architecture.recurrent))
    return networks.hidden_states(architecture, weights, inputs[:, None], hidden)[:, 0]


def critic(weights: Weights, seen: Array, names: tuple[str, str]) -> Array:
    weight, bias = names
    return (seen @ weights[weight] + weights[bias])[..., 0]


def padded_inputs(episode: Episode) -> Float32Array:
    """Return the inputs of an episode and zeros, one more than a power of two in all.

    So few lengths are compiled.
    """
    length = len(episode.actions)
    padded = 1 << (length - 1).bit_length()
    inputs = np.zeros((padded + 1, episode.inputs.shape[1]), np.float32)
    inputs[: length + 1] = episode.inputs
    return inputs


def pad_to(length: int, array: Any) -> Any:
    return np.pad(array, [(0, length - len(array))] + [(0, 0)] * (array.ndim - 1))


def log_softmax(logits: Float32Array) -> Float32Array:
    logits = logits - logits.max(axis=1, keepdims=True)
    log_probs: Float32Array = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return log_probs


def advantages(
    rewards: Float32Array, values: Float32Array, discount: float, gae_lambda: float
) -> Float32Array:
    """Return generalised advantage estimates; nothing follows the end of an episode."""
    next_values = np.append(values[1:-1], np.float32(0.0))
    td_errors = rewards + discount * next_values - values[:-1]
    estimates = np.empty_like(td_errors)
    advantage = np.float32(0.0)
    for index in range(len(td_errors) - 1, -1, -1):
        advantage = td_errors[index] + discount * gae_lambda * advantage
        estimates[index] = advantage
    return estimates


def _actor_critic(
    architecture: Architecture, weights: Weights, inputs: Array
) -> tuple[Array, Array]:
    """Return the logits of the actions, and the values of the critic."""
    seen = trunk(architecture, weights, inputs)
    return networks.head(architecture, weights, seen), critic(weights, seen, CRITIC)


def make_epochs(
    loss: Callable[[Weights, Any], Array], optimiser: optax.GradientTransformation, epochs: int
) -> Any:
    """Return a compiled function that makes one step on the whole batch in each epoch."""

    @jax.jit
    def run(weights: Weights, optimiser_state: Any, batch: Any) -> Any:
        def epoch(state: Any, _: None) -> Any:
            return networks.gradient_step(optimiser, lambda w: loss(w, batch), *state)

        start = (weights, optimiser_state)
        (weights, optimiser_state), losses = jax.lax.scan(epoch, start, length=epochs)
        return weights, optimiser_state, losses.mean()

    return run


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

    return make_epochs(loss, optimiser, settings.epochs)
