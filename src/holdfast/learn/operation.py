"""Learning from a log alone: what a policy did in operation, at costs that the filter infers.

A log shows one policy's actions and none of those that it never took. So those are not taken, the
values of rare ones are held down (conservative Q-learning), and goals look further ahead only as
long as the log did what the learner would do. Costs are components: one log teaches every dial.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax

from holdfast.inference.log import Log
from holdfast.inference.passage import filter_of, lots, passed_through
from holdfast.learn import networks
from holdfast.learn.crowd import COMPONENTS
from holdfast.learn.learner import Figures, Goods
from holdfast.learn.networks import Weights
from holdfast.learn.plus import PlusSettings, costs
from holdfast.model.action import GRID
from holdfast.model.arrays import BoolArray, Float32Array, IntArray
from holdfast.model.detection import gas
from holdfast.model.scenario import Scenario
from holdfast.policy import dial
from holdfast.policy.filter import BayesFilter, Belief
from holdfast.policy.network import Architecture


@dataclass(frozen=True)
class OperationSettings(PlusSettings):
    """Those of the network, its dials and its updates mean what they mean to `plus`."""

    length: int = 32  # decisions of a window; it begins anywhere in the log
    settled: int = 12  # of them pass before a window that begins within a node's history teaches
    caution: float = 0.1  # the price of values above that of the action taken
    least: int = 20  # rows that an action must have in the log to be taken at all


FAR = 100.0  # below all values, and near enough for float32 to tell those apart


def inferred(log: Log, scenario: Scenario) -> Float32Array:
    """Return what each audit of the log is expected to add to the totals: (rows, COMPONENTS).

    Given all that was known before it. What came after, which a smoother would add, has the same
    expectation and only more noise.
    """
    components = np.empty((log.audits, COMPONENTS), np.float32)
    for lot in lots(log):
        bayes = filter_of(scenario, lot.blocks)
        steps = iter(lot.steps)
        passed_through(bayes, log, lot, partial(_look, bayes, log, steps, components))
    return components


def _look(
    bayes: BayesFilter,
    log: Log,
    steps: Iterator[IntArray],
    components: Float32Array,
    before: Belief,
    _after: Belief,
) -> None:
    """Enter what the audits of the next step are expected to cost."""
    rows = next(steps)
    sampled = log.sampled[rows]
    count = bayes.count(before)
    passing = np.array([bayes.passing(size) for size in sampled.tolist()])
    missed = np.einsum("bc,bc->b", count[:, 1:], passing[:, 1:])
    met = 1.0 - count[:, 0]
    columns = (
        gas(sampled, bayes.scenario.blocks),
        missed,
        met,
        met * log.interval[rows],
        met - missed,
    )
    components[rows] = np.column_stack(columns)


class OperationLearner:
    multiplier = None

    def __init__(
        self,
        log: Log,
        scenario: Scenario,
        seed: int,
        settings: OperationSettings,
        rounds: int,
    ) -> None:
        self._settings, self._log = settings, log
        self._components = inferred(log, scenario)
        self._draws = np.random.default_rng(seed)
        self.inputs, self.architecture = settings.inputs, settings.architecture
        self._weights = networks.initial_weights(self.architecture, self._draws)
        self._target = self._weights
        optimiser = settings.optimiser(rounds)
        self._moments = optimiser.init(self._weights)
        taken = np.bincount(log.action, minlength=GRID.size)
        self._beyond = np.where(taken < min(settings.least, taken.max()), FAR, 0).astype(np.float32)
        self._updates = _updates(self.architecture, settings, optimiser, self._beyond)
        # A node's first row begins with no memory, and nothing is known of what follows its last.
        self._fresh = np.diff(log.node, prepend=-1) != 0
        self._lasting = np.append(~self._fresh[1:], False)

    def advance(self) -> Figures:
        """Make a round of updates from windows of the log, each under a dial of its own."""
        state = (self._weights, self._target, self._moments)
        (self._weights, self._target, self._moments), losses = self._updates(state, self._drawn())
        return {"loss": float(losses.mean())}

    def served(self) -> dict[str, Float32Array]:
        """Return weights that never choose what the log does not show."""
        found = networks.served(self._weights)
        return found | {"advantage.bias": found["advantage.bias"] - self._beyond}

    def envelope(self) -> tuple[Float32Array, Float32Array]:
        return self._log.observation.min(axis=0), self._log.observation.max(axis=0)

    def saved(self) -> Goods:
        return Goods(
            trees={"weights": self._weights, "target": self._target, "moments": self._moments},
            facts={"draws": self._draws.bit_generator.state},
        )

    def restore(self, goods: Goods) -> None:
        self._weights = goods.trees["weights"]
        self._target = goods.trees["target"]
        self._moments = goods.trees["moments"]
        self._draws.bit_generator.state = goods.facts["draws"]

    def _drawn(self) -> list[np.ndarray]:
        """Return windows of the log: axes are (update, time, batch), inputs have a moment more."""
        settings, log = self._settings, self._log
        shape = (settings.updates, 1, settings.batch)
        first = self._draws.integers(max(log.audits - settings.length, 1), size=shape)
        moments = np.arange(settings.length + 1)[:, np.newaxis]
        rows = (first + moments) % log.audits
        now = rows[:, :-1]
        dials = settings.dials.draw(settings.updates * settings.batch, self._draws)
        dials = np.broadcast_to(dials.reshape(*shape, -1), (*now.shape, dial.SIGNALS))
        signals = np.broadcast_to(dial.signals(dials[:, :1]), (*rows.shape, dial.SIGNALS))
        rewards = -costs(self._components[now], dials) / (1.0 + settings.scale * dials[..., 0])
        return [
            np.concatenate((log.observation[rows], signals), axis=-1, dtype=np.float32),
            self._fresh[rows],
            log.action[now],
            rewards.astype(np.float32),
            (settings.discount ** log.interval[now]).astype(np.float32),
            self._lasting[now],
            self._known(self._fresh[now], moments[:-1]),
        ]

    def _known(self, fresh: BoolArray, moments: IntArray) -> BoolArray:
        """Return where the memory is that of the node: since its beginning, or long enough."""
        begun = np.maximum.accumulate(fresh, axis=1)
        return np.asarray(begun | (moments >= self._settings.settled), np.bool_)


def _goals(values: Array, rewards: Array, kept: Array, lasting: Array, trace: Array) -> Array:
    """Return the targets of Watkins' Q(lambda); `trace` is 0 where the log did something else."""

    def back(following: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, share, here, then, goes_on, on = now
        goal = reward + share * (then + on * (following - then))
        goal = jnp.where(goes_on, goal, here)
        return goal, goal

    steps = (rewards, kept, values[:-1], values[1:], lasting, trace)
    _, goals = lax.scan(back, values[-1], steps, reverse=True)
    return goals


def _updates(
    architecture: Architecture, settings: OperationSettings, optimiser: Any, beyond: Float32Array
) -> Any:
    def loss(weights: Weights, target: Weights, batch: tuple[Array, ...]) -> Array:
        inputs, fresh, actions, rewards, kept, lasting, known = batch
        nothing = jnp.zeros((inputs.shape[1], settings.recurrent))
        online = networks.unrolled(architecture, weights, inputs, nothing, fresh)
        judged = networks.unrolled(architecture, target, inputs, nothing, fresh)
        best = lax.stop_gradient(online - beyond).argmax(axis=-1)
        values = jnp.take_along_axis(judged, best[..., None], axis=-1)[..., 0]
        same = jnp.append(actions[1:] == best[1:-1], jnp.zeros_like(actions[:1], bool), axis=0)
        goals = _goals(values, rewards, kept, lasting, settings.trace * same)
        chosen = jnp.take_along_axis(online[:-1], actions[..., None], axis=-1)[..., 0]
        above = jax.nn.logsumexp(online[:-1] - beyond, axis=-1) - chosen
        taught = lasting & known
        errors = (chosen - goals) ** 2 + settings.caution * above
        return jnp.sum(taught * errors) / jnp.maximum(jnp.sum(taught), 1)

    @jax.jit
    def run(start: Any, batches: Any) -> Any:
        def update(state: Any, batch: Any) -> Any:
            weights, target, moments = state
            value, gradient = jax.value_and_grad(loss)(weights, target, batch)
            change, moments = optimiser.update(gradient, moments)
            weights = optax.apply_updates(weights, change)
            target = optax.incremental_update(weights, target, settings.average)
            return (weights, target, moments), value

        return lax.scan(update, start, tuple(batches))

    return run
