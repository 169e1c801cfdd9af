"""DRQN-CMDP-plus: the paper's network, trained for what an operator wants.

What an audit costs is gas, plus a price on misses above a ceiling, plus a price on latency above
another; detections are not paid for. Prices and ceilings differ from node to node and are inputs
of the network, so that one network serves every ceiling. Elapsed time is discounted, not the
number of decisions, and the horizon does not end anything: the node lives on.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax

from holdfast.learn import networks
from holdfast.learn.learner import Figures, TrainerState
from holdfast.learn.networks import Weights
from holdfast.learn.vec_env import COMPONENTS, Crowd
from holdfast.model.action import GRID
from holdfast.model.arrays import BoolArray, Float32Array, FloatArray, IntArray
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.policy import dial
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture, forward

DEFAULT = Ceilings(0.05, 9.1)
TARGETS = tuple(
    Ceilings(rho, latency)
    for rho in (0.03, 0.04, 0.05, 0.075, 0.1, 0.15)
    for latency in (6.0, 9.1, 12.0)
)


@dataclass(frozen=True)
class DialRange:
    """Where training draws ceilings and prices from, log-uniformly.

    The price of misses that keeps a ceiling rises as the ceiling falls, so its range is given for
    a ceiling of 0.05 and shifted by `(0.05 / rho) ** steepness`.
    """

    rho: tuple[float, float] = (0.02, 0.2)
    latency: tuple[float, float] = (4.0, 16.0)
    miss_price: tuple[float, float] = (0.3, 8.0)
    steepness: float = 1.5
    latency_price: tuple[float, float] = (0.001, 0.05)

    def draw(self, count: int, draws: np.random.Generator) -> FloatArray:
        """Return dials (count, 4), in the order of the fields of `policy.dial.Dial`."""
        rho, latency = _between(self.rho, count, draws), _between(self.latency, count, draws)
        return self._priced(rho, latency, draws)

    def around(self, ceilings: Ceilings, count: int, draws: np.random.Generator) -> FloatArray:
        """Return dials with these ceilings, or the highest latency, at different prices."""
        latency = self.latency[1] if ceilings.latency is None else ceilings.latency
        return self._priced(np.full(count, ceilings.miss_rate), np.full(count, latency), draws)

    def only(self, ceilings: Ceilings) -> "DialRange":
        """Return the same prices with these ceilings alone."""
        rho, latency = ceilings.miss_rate, ceilings.latency or self.latency[1]
        return replace(self, rho=(rho, rho), latency=(latency, latency))

    def _priced(
        self, rho: FloatArray, latency: FloatArray, draws: np.random.Generator
    ) -> FloatArray:
        steep = (0.05 / rho) ** self.steepness
        miss_price = steep * _between(self.miss_price, len(rho), draws)
        latency_price = _between(self.latency_price, len(rho), draws)
        return np.column_stack((miss_price, latency_price, rho, latency))


def _between(ends: tuple[float, float], count: int, draws: np.random.Generator) -> FloatArray:
    low, high = np.log(ends)
    return np.exp(draws.uniform(low, high, count))


@dataclass(frozen=True)
class PlusSettings:
    # Whether detections cost what was to be expected. Where audits often miss, that spares the
    # network noise; the policies that ship were trained on the outcomes.
    expected: ClassVar[bool] = False
    dials: DialRange = DialRange()
    # Pairs of ceilings that get validated dials at the end, and the pair that is the default.
    targets: tuple[Ceilings, ...] = TARGETS
    default: Ceilings = DEFAULT
    validation: int = 4000  # episodes for each dial
    # Fields of the scenario that differ from node to node, drawn log-uniformly.
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    features: tuple[int, ...] = (128, 128)
    recurrent: int = 64
    nodes: int = 128
    length: int = 32  # decisions of a sequence; it starts from the state the node had then
    kept: int = 40  # rounds in the replay; a round is `nodes` sequences
    updates: int = 8  # per round
    batch: int = 64  # sequences
    learning_rate: float = 1e-3  # falls to zero along a cosine
    norm: float = 1.0  # the largest gradient
    discount: float = 0.99  # per time unit
    trace: float = 0.8  # lambda of Q(lambda)
    average: float = 0.01  # share of the new weights in the target's at each update
    greedy: float = 0.25  # share of nodes that do not explore
    explore: tuple[float, float] = (0.01, 0.2)  # epsilon of the others, from the least to the most
    calmed: float = 0.8  # by so much of itself epsilon falls until the end
    # Costs are divided by 1 + scale * miss price, or dear dials would drown out cheap ones.
    scale: float = 0.25
    inputs: ClassVar[Inputs] = Inputs(dial=True)

    @property
    def architecture(self) -> Architecture:
        return Architecture(
            inputs=self.inputs.size,
            features=self.features,
            recurrent=self.recurrent,
            head="dueling",
        )

    def optimiser(self, rounds: int) -> optax.GradientTransformation:
        rate = optax.cosine_decay_schedule(self.learning_rate, rounds * self.updates)
        return optax.chain(optax.clip_by_global_norm(self.norm), optax.adam(rate))


@dataclass(frozen=True)
class Sequence:
    """What a round leaves in the replay; axes are (time, nodes), time first."""

    inputs: Float32Array  # one moment more than the rest
    fresh: BoolArray  # like `inputs`; a new episode begins here
    hidden: Float32Array  # (nodes, units), before the first moment
    actions: IntArray
    components: Float32Array
    interval: IntArray
    dials: FloatArray
    lasting: BoolArray  # the episode went on, so that what follows is known

    def take(self, nodes: IntArray) -> list[np.ndarray]:
        return [
            array[nodes] if name == "hidden" else array[:, nodes]
            for name, array in self.__dict__.items()
        ]


class PlusLearner:
    multiplier = None

    def __init__(self, scenario: Scenario, seed: int, settings: PlusSettings, rounds: int) -> None:
        self._settings = settings
        self._rounds = rounds
        self._draws = np.random.default_rng(seed)
        self.inputs, self.architecture = settings.inputs, settings.architecture
        self._weights = networks.initial_weights(self.architecture, self._draws)
        self._target = self._weights
        optimiser = settings.optimiser(rounds)
        self._moments = optimiser.init(self._weights)
        self._updates = _updates(self.architecture, settings, optimiser)
        self._served = networks.served(self._weights)
        self._crowd = Crowd(
            scenario, settings.ranges, settings.nodes, self._draws, expected=settings.expected
        )
        self._dials = settings.dials.draw(settings.nodes, self._draws)
        self._hidden = np.zeros((settings.nodes, settings.recurrent), np.float32)
        self._fresh = np.ones(settings.nodes, np.bool_)
        self._epsilon = _epsilons(settings)
        self._replay: deque[Sequence] = deque(maxlen=settings.kept)
        self._done = 0

    def advance(self) -> Figures:
        """Let every node live through a sequence of decisions, then learn from the replay."""
        settings = self._settings
        calm = 1.0 - settings.calmed * self._done / self._rounds
        self._replay.append(self._live(self._epsilon * calm))
        state = (self._weights, self._target, self._moments)
        (self._weights, self._target, self._moments), losses = self._updates(state, self._drawn())
        self._served = networks.served(self._weights)
        self._fresh |= self._crowd.renew()
        self._done += 1
        calmest = self._epsilon == self._epsilon.min()
        return _figures(self._replay[-1], calmest) | {"loss": float(losses.mean())}

    def served(self) -> dict[str, Float32Array]:
        return self._served

    def envelope(self) -> tuple[Float32Array, Float32Array]:
        return self._crowd.low, self._crowd.high

    def saved(self) -> TrainerState:
        # A sequence stands in the trees as a list of arrays, and the replay may be of any length.
        return TrainerState(
            trees={
                "weights": self._weights,
                "target": self._target,
                "moments": self._moments,
                "crowd": self._crowd.trees(),
                "nodes": [self._dials, self._hidden, self._fresh],
                "replay": {
                    name: np.stack([sequence.__dict__[name] for sequence in self._replay])
                    if self._replay
                    else np.empty(0)
                    for name in Sequence.__dataclass_fields__
                },
            },
            facts={
                "done": self._done,
                "draws": self._draws.bit_generator.state,
                "crowd": self._crowd.facts(),
            },
        )

    def restore(self, goods: TrainerState) -> None:
        self._weights = goods.trees["weights"]
        self._target = goods.trees["target"]
        self._moments = goods.trees["moments"]
        self._crowd.restore(goods.trees["crowd"], goods.facts["crowd"])
        self._dials, self._hidden, self._fresh = goods.trees["nodes"]
        stacked = goods.trees["replay"]
        self._replay.clear()
        for index in range(min(goods.facts["done"], self._settings.kept)):
            self._replay.append(Sequence(**{name: array[index] for name, array in stacked.items()}))
        self._done = goods.facts["done"]
        self._draws.bit_generator.state = goods.facts["draws"]
        self._served = networks.served(self._weights)

    def _live(self, epsilon: FloatArray) -> Sequence:
        settings, draws = self._settings, self._draws
        length, nodes = settings.length, settings.nodes
        signals = len(OBSERVATION)
        inputs = np.empty((length + 1, nodes, self.inputs.size), np.float32)
        fresh = np.empty((length + 1, nodes), np.bool_)
        actions = np.empty((length, nodes), np.int64)
        components = np.empty((length, nodes, COMPONENTS), np.float32)
        interval = np.empty((length, nodes), np.int64)
        dials = np.empty((length, nodes, dial.SIGNALS))
        hidden = self._hidden.copy()
        for now in range(length + 1):
            if self._fresh.any():
                self._dials = self._dials.copy()
                self._dials[self._fresh] = settings.dials.draw(int(self._fresh.sum()), draws)
            inputs[now, :, :signals] = self._crowd.observe()
            inputs[now, :, signals:] = dial.signals(self._dials)
            fresh[now] = self._fresh
            if now == length:
                break
            self._hidden[self._fresh] = 0.0
            outputs, self._hidden = forward(
                self.architecture, self._served, inputs[now], self._hidden
            )
            wander = draws.random(nodes) < epsilon
            actions[now] = np.where(
                wander, draws.integers(GRID.size, size=nodes), outputs.argmax(axis=1)
            )
            dials[now] = self._dials
            step = self._crowd.step(actions[now])
            components[now], interval[now] = step.components, step.interval
            self._fresh = step.finished
        return Sequence(inputs, fresh, hidden, actions, components, interval, dials, ~fresh[1:])

    def _drawn(self) -> list[np.ndarray]:
        """Return a batch for each update, stacked, with the costs that its dials make."""
        settings, draws = self._settings, self._draws
        shape = (settings.updates, settings.batch)
        rounds = draws.integers(len(self._replay), size=shape)
        nodes = draws.integers(settings.nodes, size=shape)
        batches = []
        for update in range(settings.updates):
            parts = [
                self._replay[index].take(nodes[update][rounds[update] == index])
                for index in np.unique(rounds[update])
            ]
            whole = [
                np.concatenate(arrays, axis=0 if name == "hidden" else 1)
                for name, arrays in zip(
                    Sequence.__dataclass_fields__, zip(*parts, strict=True), strict=True
                )
            ]
            inputs, fresh, hidden, actions, components, interval, dials, lasting = whole
            rewards = -costs(components, dials) / (1.0 + settings.scale * dials[..., 0])
            kept = settings.discount**interval
            batches.append(
                (
                    inputs,
                    fresh,
                    hidden,
                    actions,
                    rewards.astype(np.float32),
                    kept.astype(np.float32),
                    lasting,
                )
            )
        return [np.stack(arrays) for arrays in zip(*batches, strict=True)]


def costs(components: Float32Array, dials: FloatArray) -> FloatArray:
    """Return gas + nu (P(miss) - rho [c > 0]) + kappa (dt [c > 0] - latency detected)."""
    gas, misses, encounters, waiting, detections = np.moveaxis(components, -1, 0)
    miss_price, latency_price, rho, latency = np.moveaxis(dials, -1, 0)
    over = miss_price * (misses - rho * encounters)
    late = latency_price * (waiting - latency * detections)
    return np.asarray(gas + over + late, np.float64)


def _epsilons(settings: PlusSettings) -> FloatArray:
    """Return how often each node explores: the first ones never, the others by degrees."""
    epsilon = np.geomspace(*settings.explore, settings.nodes)
    epsilon[: int(settings.greedy * settings.nodes)] = 0.0
    return epsilon


def _figures(sequence: Sequence, which: BoolArray) -> Figures:
    """Return what these nodes spent and missed, whatever their dials."""
    gas, misses, encounters, waiting, detections = (
        sequence.components[:, which].reshape(-1, COMPONENTS).sum(axis=0).tolist()
    )
    units = float(sequence.interval[:, which].sum())
    return {
        "decisions": float(sequence.actions.size),
        "gas": 365.0 * gas / units,
        "miss_rate": misses / max(encounters, 1.0),
        "latency": waiting / max(detections, 1.0),
        "interval": units / sequence.interval[:, which].size,
    }


def _goals(values: Array, rewards: Array, kept: Array, lasting: Array, trace: float) -> Array:
    """Return the targets of Q(lambda) along sequences; `values` has one moment more."""

    def back(following: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, share, here, then, goes_on = now
        goal = reward + share * (then + trace * (following - then))
        goal = jnp.where(goes_on, goal, here)
        return goal, goal

    steps = (rewards, kept, values[:-1], values[1:], lasting)
    _, goals = lax.scan(back, values[-1], steps, reverse=True)
    return goals


def _updates(architecture: Architecture, settings: PlusSettings, optimiser: Any) -> Any:
    def loss(weights: Weights, target: Weights, batch: tuple[Array, ...]) -> Array:
        inputs, fresh, hidden, actions, rewards, kept, lasting = batch
        online = networks.unrolled(architecture, weights, inputs, hidden, fresh)
        judged = networks.unrolled(architecture, target, inputs, hidden, fresh)
        best = lax.stop_gradient(online).argmax(axis=-1, keepdims=True)
        values = jnp.take_along_axis(judged, best, axis=-1)[..., 0]
        goals = _goals(values, rewards, kept, lasting, settings.trace)
        chosen = jnp.take_along_axis(online[:-1], actions[..., None], axis=-1)[..., 0]
        # What follows the last decision before the horizon is unknown: it is left out. With a
        # horizon of one unit nothing is left.
        return jnp.sum(lasting * (chosen - goals) ** 2) / jnp.maximum(jnp.sum(lasting), 1)

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
