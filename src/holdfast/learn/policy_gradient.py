"""The policy-gradient agents: PPO, A2C and PPO with an adaptive price of misses.

They learn after each episode from that episode alone.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from holdfast.learn import networks
from holdfast.learn.learner import Figures, TrainerState
from holdfast.learn.multiplier import Multiplier
from holdfast.learn.networks import Weights
from holdfast.learn.rollout_env import Episode, Stage
from holdfast.model.action import GRID
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture, forward

CRITIC = ("critic.weight", "critic.bias")  # beside the weights that decide


@dataclass(frozen=True)
class GradientSettings:
    """The paper's trunk, rate, epochs and GAE; the rest are the usual figures."""

    epochs: int = 4
    clip: float | None = 0.2  # of the probability ratio; None for the plain policy gradient
    multiplier: Multiplier = Multiplier()
    inputs: Inputs = Inputs()
    features: tuple[int, ...] = (128, 128)
    learning_rate: float = 3e-4
    discount: float = 0.99  # per decision
    trace: float = 0.95  # lambda of GAE
    entropy: float = 0.01
    critic: float = 0.5
    norm: float = 0.5  # the largest gradient


@dataclass(frozen=True)
class _Batch:
    """An episode; arrays of NumPy that JAX takes."""

    inputs: Any
    actions: Any
    advantages: Any
    returns: Any
    chances: Any  # log-probability of each action when it was taken
    mask: Any


jax.tree_util.register_dataclass(
    _Batch, ["inputs", "actions", "advantages", "returns", "chances", "mask"], []
)


class GradientLearner:
    def __init__(self, scenario: Scenario, seed: int, settings: GradientSettings) -> None:
        streams = np.random.SeedSequence(seed).spawn(2)
        self._settings = settings
        self._draws = np.random.default_rng(streams[0])
        self._stage = Stage(scenario, settings.inputs, int(streams[1].generate_state(1)[0]))
        self.inputs = settings.inputs
        self.multiplier = settings.multiplier
        self.architecture = Architecture(settings.inputs.size, settings.features)
        width = settings.features[-1]
        bound = width**-0.5
        self._weights = networks.initial_weights(self.architecture, self._draws) | {
            name: jnp.asarray(self._draws.uniform(-bound, bound, shape), jnp.float32)
            for name, shape in zip(CRITIC, ((width, 1), (1,)), strict=True)
        }
        optimiser = optax.chain(
            optax.clip_by_global_norm(settings.norm), optax.adam(settings.learning_rate)
        )
        self._moments = optimiser.init(self._weights)
        self._update = _updates(self.architecture, settings, optimiser)
        self._values = jax.jit(lambda weights, seen: _judged(self.architecture, weights, seen)[1])
        self._served = self._deciding()

    def advance(self) -> Figures:
        """Play one episode, learn from it, and adapt the multiplier."""
        episode = self._stage.play(self.multiplier.value, self._decide)
        batch = self._batch(episode)
        self._weights, self._moments, loss = self._update(self._weights, self._moments, batch)
        self._served = self._deciding()
        self.multiplier = self.multiplier.after(episode.misses, episode.detections)
        return episode.figures() | {
            "multiplier": self.multiplier.value,
            "loss": float(loss),
        }

    def served(self) -> dict[str, Float32Array]:
        return self._served

    def envelope(self) -> tuple[Float32Array, Float32Array]:
        return self._stage.low, self._stage.high

    def saved(self) -> TrainerState:
        return TrainerState(
            trees={
                "weights": self._weights,
                "moments": self._moments,
                "envelope": [self._stage.low, self._stage.high],
            },
            facts={
                "multiplier": self.multiplier.value,
                "draws": self._draws.bit_generator.state,
                "stage": self._stage.draws_state(),
            },
        )

    def restore(self, goods: TrainerState) -> None:
        self._weights = goods.trees["weights"]
        self._moments = goods.trees["moments"]
        self._stage.low[:], self._stage.high[:] = goods.trees["envelope"]
        self.multiplier = self.multiplier.at(goods.facts["multiplier"])
        self._draws.bit_generator.state = goods.facts["draws"]
        self._stage.restore_draws(goods.facts["stage"])
        self._served = self._deciding()

    def _deciding(self) -> dict[str, Float32Array]:
        weights = networks.served(self._weights)
        return {name: array for name, array in weights.items() if name not in CRITIC}

    def _decide(self, seen: Float32Array) -> int:
        """Draw an action by the chances that the outputs stand for (Gumbel's way)."""
        nothing = np.zeros((1, 0), np.float32)
        outputs, _ = forward(self.architecture, self._served, seen[np.newaxis], nothing)
        return int((outputs[0] + self._draws.gumbel(size=GRID.size)).argmax())

    def _batch(self, episode: Episode) -> _Batch:
        """Return the episode, filled up to a power of two, so that few lengths are compiled."""
        length = len(episode.actions)
        room = 1 << (length - 1).bit_length()
        inputs = np.zeros((room + 1, episode.inputs.shape[1]), np.float32)
        inputs[: length + 1] = episode.inputs
        values = np.asarray(self._values(self._weights, inputs))[: length + 1]
        advantages = self._advantages(episode.rewards, values)
        outputs, _ = forward(
            self.architecture,
            self._served,
            episode.inputs[:-1],
            np.zeros((length, 0), np.float32),
        )
        outputs -= outputs.max(axis=1, keepdims=True)
        chances = outputs[np.arange(length), episode.actions]
        chances -= np.log(np.exp(outputs).sum(axis=1))

        def filled(array: Any) -> Any:
            return np.pad(array, (0, room - length))

        return _Batch(
            inputs=inputs[:-1],
            actions=filled(episode.actions),
            advantages=filled((advantages - advantages.mean()) / (advantages.std() + 1e-8)),
            returns=filled(advantages + values[:-1]),
            chances=filled(chances),
            mask=filled(np.ones(length, np.float32)),
        )

    def _advantages(self, rewards: Float32Array, values: Float32Array) -> Float32Array:
        """Return generalised advantage estimates; nothing follows the end of an episode."""
        settings = self._settings
        following = np.append(values[1:-1], np.float32(0.0))
        errors = rewards + settings.discount * following - values[:-1]
        advantages = np.empty_like(errors)
        running = np.float32(0.0)
        for index in range(len(errors) - 1, -1, -1):
            running = errors[index] + settings.discount * settings.trace * running
            advantages[index] = running
        return advantages


def _judged(architecture: Architecture, weights: Weights, inputs: Array) -> tuple[Array, Array]:
    """Return the outputs that decide, and the critic's values."""
    seen = networks.features(architecture, weights, inputs)
    values = seen @ weights["critic.weight"] + weights["critic.bias"]
    return networks.head(architecture, weights, seen), values[..., 0]


def _updates(architecture: Architecture, settings: GradientSettings, optimiser: Any) -> Any:
    def loss(weights: Weights, batch: _Batch) -> Array:
        outputs, values = _judged(architecture, weights, batch.inputs)
        chances = jax.nn.log_softmax(outputs)
        chosen = jnp.take_along_axis(chances, batch.actions[:, None], axis=-1)[:, 0]
        if settings.clip is None:
            gain = chosen * batch.advantages
        else:
            ratio = jnp.exp(chosen - batch.chances)
            clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
            gain = jnp.minimum(ratio * batch.advantages, clipped * batch.advantages)
        entropy = -jnp.sum(jnp.exp(chances) * chances, axis=-1)
        error = (values - batch.returns) ** 2
        each = settings.critic * error - gain - settings.entropy * entropy
        return jnp.sum(batch.mask * each) / jnp.sum(batch.mask)

    @jax.jit
    def run(weights: Weights, moments: Any, batch: _Batch) -> Any:
        def epoch(state: Any, _: None) -> Any:
            weights, moments = state
            value, gradient = jax.value_and_grad(loss)(weights, batch)
            change, moments = optimiser.update(gradient, moments)
            return (optax.apply_updates(weights, change), moments), value

        start = (weights, moments)
        (weights, moments), values = jax.lax.scan(epoch, start, length=settings.epochs)
        return weights, moments, values.mean()

    return run
