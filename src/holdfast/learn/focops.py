"""FOCOPS: first-order constrained optimisation in policy space (Zhang, Vuong and Ross, 2020).

Unlike the paper's agents it keeps rewards and costs apart: each has a critic, and the price of a
miss is applied to advantages instead of rewards, so that old values are never at an old price.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.learn import networks
from holdfast.learn.episode_learner import EpisodeLearner
from holdfast.learn.learner import Figures
from holdfast.learn.multiplier import Multiplier
from holdfast.learn.networks import Weights
from holdfast.learn.policy_gradient import (
    ActionSampler,
    advantages,
    critic,
    initial_critic,
    log_softmax,
    make_epochs,
    make_optimiser,
    pad_to,
    padded_inputs,
    trunk,
)
from holdfast.learn.rollout_env import Episode
from holdfast.learn.settings import setting
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture

REWARD_CRITIC = ("reward_critic.weight", "reward_critic.bias")
COST_CRITIC = ("cost_critic.weight", "cost_critic.bias")


@dataclass(frozen=True)
class FocopsSettings:
    """Temperature, bound and number of epochs of its authors; the rest as for PPO.

    The price is per miss. In the paper's reward a miss costs lambda times at least 0.01, so this
    multiplier is a hundredth of the paper's, in its start, its step and its bound.
    """

    epochs: int = 10
    temperature: float = 1.5  # its authors' lambda
    max_divergence: float = 0.02  # decisions that moved further from the old policy are left out
    multiplier: Multiplier = Multiplier(value=0.1, step=0.05, max_value=2.0)
    inputs: Inputs = Inputs()
    features: tuple[int, ...] = (128, 128)
    learning_rate: float = 3e-4
    discount: float = 0.99  # per decision
    gae_lambda: float = setting("trace", 0.95)
    value_coefficient: float = setting("critic", 0.5)
    max_grad_norm: float = setting("norm", 0.5)


@dataclass(frozen=True)
class _Batch:
    """An episode, in arrays of NumPy that JAX accepts."""

    inputs: Any
    actions: Any
    advantages: Any  # of rewards, less those of costs at their price
    returns: Any
    costs: Any  # discounted, as the critic of costs should see them
    log_probs: Any  # of all actions under the policy that acted
    mask: Any


jax.tree_util.register_dataclass(
    _Batch, ["inputs", "actions", "advantages", "returns", "costs", "log_probs", "mask"], []
)


class FocopsLearner(EpisodeLearner):
    def __init__(self, scenario: Scenario, seed: int, settings: FocopsSettings) -> None:
        architecture = Architecture(settings.inputs.size, settings.features)
        super().__init__(scenario, seed, architecture, settings.inputs, settings.multiplier)
        self._settings = settings
        self._set_weights(
            self._weights
            | initial_critic(architecture, self._rng, REWARD_CRITIC)
            | initial_critic(architecture, self._rng, COST_CRITIC)
        )
        optimiser = make_optimiser(settings.max_grad_norm, settings.learning_rate)
        self._optimiser_state = optimiser.init(self._weights)
        self._update = make_epochs(_loss(architecture, settings), optimiser, settings.epochs)
        self._evaluate = jax.jit(lambda weights, inputs: _evaluate(architecture, weights, inputs))
        self._sampler = ActionSampler(architecture, self._rng)

    def advance(self) -> Figures:
        """Run one episode, adapt the price of misses, and learn from the episode."""
        episode = self._env.run_episode(0.0, self._sampler.begin(self._policy_weights))
        self.multiplier = self.multiplier.after(episode.misses, episode.detections)
        weights, self._optimiser_state, loss = self._update(
            self._weights, self._optimiser_state, self._batch(episode)
        )
        self._set_weights(weights)
        return episode.figures() | {"multiplier": self.multiplier.value, "loss": float(loss)}

    def _set_weights(self, weights: Weights) -> None:
        super()._set_weights(weights)
        for name in (*REWARD_CRITIC, *COST_CRITIC):
            self._policy_weights.pop(name)

    def _batch(self, episode: Episode) -> _Batch:
        settings, length = self._settings, len(episode.actions)
        inputs = padded_inputs(episode)
        logits, values, cost_values = (
            np.asarray(array)[: length + 1] for array in self._evaluate(self._weights, inputs)
        )
        estimate = partial(advantages, discount=settings.discount, gae_lambda=settings.gae_lambda)
        gains = estimate(episode.rewards, values)
        costs = estimate(costs_of(episode, self.multiplier.ceiling), cost_values)
        priced = gains - self.multiplier.value * costs
        pad = partial(pad_to, len(inputs) - 1)
        return _Batch(
            inputs=inputs[:-1],
            actions=pad(episode.actions),
            advantages=pad((priced - priced.mean()) / (priced.std() + 1e-8)),
            returns=pad(gains + values[:-1]),
            costs=pad(costs + cost_values[:-1]),
            log_probs=pad(log_softmax(logits[:-1])),
            mask=pad(np.ones(length, np.float32)),
        )


def costs_of(episode: Episode, ceiling: float) -> Float32Array:
    """Return costs whose expected sum is at most zero exactly if the miss rate keeps the ceiling.

    A miss rate is a quotient; misses less the ceiling's share of encounters is a sum.
    """
    encounters = episode.missed | episode.detected
    return (episode.missed - ceiling * encounters).astype(np.float32)


def _evaluate(
    architecture: Architecture, weights: Weights, inputs: Array
) -> tuple[Array, Array, Array]:
    """Return the logits of the actions, and the values of both critics."""
    seen = trunk(architecture, weights, inputs)
    return (
        networks.head(architecture, weights, seen),
        critic(weights, seen, REWARD_CRITIC),
        critic(weights, seen, COST_CRITIC),
    )


def _loss(
    architecture: Architecture, settings: FocopsSettings
) -> Callable[[Weights, _Batch], Array]:
    def loss(weights: Weights, batch: _Batch) -> Array:
        logits, values, cost_values = _evaluate(architecture, weights, batch.inputs)
        log_probs = jax.nn.log_softmax(logits)
        divergence = jnp.sum(jnp.exp(log_probs) * (log_probs - batch.log_probs), axis=-1)
        moved = jnp.take_along_axis(log_probs - batch.log_probs, batch.actions[:, None], axis=-1)[
            :, 0
        ]
        gain = jnp.exp(moved) * batch.advantages / settings.temperature
        near = jax.lax.stop_gradient(divergence <= settings.max_divergence)
        value_losses = (values - batch.returns) ** 2 + (cost_values - batch.costs) ** 2
        losses = near * (divergence - gain) + settings.value_coefficient * value_losses
        return jnp.sum(batch.mask * losses) / jnp.sum(batch.mask)

    return loss
