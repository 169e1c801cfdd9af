"""DRQN-CMDP-plus: the paper's network, trained for any ceilings that an operator may set.

The cost of an audit is gas, plus a price on misses above a ceiling, plus a price on latency above
another; detections earn nothing. Prices and ceilings differ from node to node and are inputs of
the network, so one network serves every ceiling. Elapsed time is discounted, not the number of
decisions, and the horizon is not an end of the node: nothing is assumed about what follows it.
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
from holdfast.learn.settings import setting
from holdfast.learn.td_target import next_q, q_lambda_targets
from holdfast.learn.vec_env import COMPONENTS, VecEnv
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
    """The ranges from which training samples ceilings and prices, log-uniformly.

    The price of misses that keeps a ceiling rises as the ceiling falls, so its range is given for
    a ceiling of 0.05 and multiplied by `(0.05 / rho) ** steepness`.
    """

    rho: tuple[float, float] = (0.02, 0.2)
    latency: tuple[float, float] = (4.0, 16.0)
    miss_price: tuple[float, float] = (0.3, 8.0)
    steepness: float = 1.5
    latency_price: tuple[float, float] = (0.001, 0.05)

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return dials (count, 4), in the order of the fields of `policy.dial.Dial`."""
        rho, latency = _log_uniform(self.rho, count, rng), _log_uniform(self.latency, count, rng)
        return self._with_prices(rho, latency, rng)

    def sample_around(self, ceilings: Ceilings, count: int, rng: np.random.Generator) -> FloatArray:
        """Return dials with these ceilings (or the highest latency) at sampled prices."""
        latency = self.latency[1] if ceilings.latency is None else ceilings.latency
        return self._with_prices(np.full(count, ceilings.miss_rate), np.full(count, latency), rng)

    def restricted_to(self, ceilings: Ceilings) -> "DialRange":
        """Return the same range of prices for these ceilings alone."""
        rho, latency = ceilings.miss_rate, ceilings.latency or self.latency[1]
        return replace(self, rho=(rho, rho), latency=(latency, latency))

    def _with_prices(
        self, rho: FloatArray, latency: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        factor = (0.05 / rho) ** self.steepness
        miss_price = factor * _log_uniform(self.miss_price, len(rho), rng)
        latency_price = _log_uniform(self.latency_price, len(rho), rng)
        return np.column_stack((miss_price, latency_price, rho, latency))


def _log_uniform(bounds: tuple[float, float], count: int, rng: np.random.Generator) -> FloatArray:
    low, high = np.log(bounds)
    return np.exp(rng.uniform(low, high, count))


@dataclass(frozen=True)
class PlusSettings:
    # Whether detections count by their probability instead of as they happen. That reduces noise
    # where audits often miss. The policies that ship were trained on what happened.
    expected: ClassVar[bool] = False
    # Why a longer training is no continuation of a shorter one.
    depends_on_length: ClassVar[str] = "learning rate and exploration fall over its whole length"
    dials: DialRange = DialRange()
    # The pairs of ceilings that get validated dials after training, and the default pair.
    targets: tuple[Ceilings, ...] = TARGETS
    default: Ceilings = DEFAULT
    validation: int = 4000  # episodes for each dial
    # Fields of the scenario that differ from node to node, drawn log-uniformly.
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    features: tuple[int, ...] = (128, 128)
    recurrent: int = 64
    nodes: int = 128
    # Decisions of a sequence. It starts from the hidden state that the node had then.
    sequence_length: int = setting("length", 32)
    buffer_size: int = setting("kept", 40)  # rounds; a round is `nodes` sequences
    gradient_steps: int = setting("updates", 8)  # per round
    batch_size: int = setting("batch", 64)  # sequences
    learning_rate: float = 1e-3  # falls to zero along a cosine
    max_grad_norm: float = setting("norm", 1.0)
    discount: float = 0.99  # per time unit
    trace_decay: float = setting("trace", 0.8)  # lambda of Q(lambda)
    tau: float = setting("average", 0.01)  # of the soft update of the target network
    greedy_share: float = setting("greedy", 0.25)  # of the nodes: these do not explore
    epsilon_range: tuple[float, float] = setting("explore", (0.01, 0.2))  # over the other nodes
    epsilon_decay: float = setting("calmed", 0.8)  # share by which epsilon falls over training
    # Costs are divided by 1 + cost_scale * miss price, or expensive dials would drown out others.
    cost_scale: float = setting("scale", 0.25)
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
        rate = optax.cosine_decay_schedule(self.learning_rate, rounds * self.gradient_steps)
        return optax.chain(optax.clip_by_global_norm(self.max_grad_norm), optax.adam(rate))


@dataclass(frozen=True)
class Rollout:
    """What a round adds to the replay buffer; axes are (time, nodes)."""

    inputs: Float32Array  # one step more than the rest
    episode_starts: BoolArray  # as long as `inputs`
    hidden: Float32Array  # (nodes, units), before the first step
    actions: IntArray
    components: Float32Array
    interval: IntArray
    dials: FloatArray
    continues: BoolArray  # the episode continues after this decision

    def select(self, nodes: IntArray) -> list[np.ndarray]:
        return [
            array[nodes] if name == "hidden" else array[:, nodes]
            for name, array in self.__dict__.items()
        ]


class PlusLearner:
    multiplier = None

    def __init__(self, scenario: Scenario, seed: int, settings: PlusSettings, rounds: int) -> None:
        self._settings = settings
        self._rounds = rounds
        self._rng = np.random.default_rng(seed)
        self.inputs, self.architecture = settings.inputs, settings.architecture
        self._weights = networks.initial_weights(self.architecture, self._rng)
        self._target_weights = self._weights
        optimiser = settings.optimiser(rounds)
        self._optimiser_state = optimiser.init(self._weights)
        self._run_updates = _make_updates(self.architecture, settings, optimiser)
        self._policy_weights = networks.to_numpy(self._weights)
        self._env = VecEnv(
            scenario, settings.ranges, settings.nodes, self._rng, expected=settings.expected
        )
        self._dials = settings.dials.sample(settings.nodes, self._rng)
        self._hidden = np.zeros((settings.nodes, settings.recurrent), np.float32)
        self._episode_starts = np.ones(settings.nodes, np.bool_)
        self._epsilon = _epsilons(settings)
        self._replay_buffer: deque[Rollout] = deque(maxlen=settings.buffer_size)
        self._rounds_done = 0

    def advance(self) -> Figures:
        """Collect a sequence of decisions from every node, then learn from the replay buffer."""
        settings = self._settings
        exploration = 1.0 - settings.epsilon_decay * self._rounds_done / self._rounds
        self._replay_buffer.append(self._collect_rollout(self._epsilon * exploration))
        state = (self._weights, self._target_weights, self._optimiser_state)
        (self._weights, self._target_weights, self._optimiser_state), losses = self._run_updates(
            state, self._sample_batches()
        )
        self._policy_weights = networks.to_numpy(self._weights)
        self._episode_starts |= self._env.renew_fleet()
        self._rounds_done += 1
        greediest = self._epsilon == self._epsilon.min()
        return _figures(self._replay_buffer[-1], greediest) | {"loss": float(losses.mean())}

    def policy_weights(self) -> dict[str, Float32Array]:
        return self._policy_weights

    def envelope(self) -> tuple[Float32Array, Float32Array]:
        return self._env.low, self._env.high

    def state(self) -> TrainerState:
        # Rollouts are stacked field by field, since the replay buffer may have any length.
        return TrainerState(
            trees={
                "weights": self._weights,
                "target": self._target_weights,
                "optimiser": self._optimiser_state,
                "env": self._env.trees(),
                "nodes": [self._dials, self._hidden, self._episode_starts],
                "replay": {
                    name: np.stack([rollout.__dict__[name] for rollout in self._replay_buffer])
                    if self._replay_buffer
                    else np.empty(0)
                    for name in Rollout.__dataclass_fields__
                },
            },
            facts={
                "rounds": self._rounds_done,
                "rng": self._rng.bit_generator.state,
                "env": self._env.facts(),
            },
        )

    def restore(self, state: TrainerState) -> None:
        self._weights = state.trees["weights"]
        self._target_weights = state.trees["target"]
        self._optimiser_state = state.trees["optimiser"]
        self._env.restore(state.trees["env"], state.facts["env"])
        self._dials, self._hidden, self._episode_starts = state.trees["nodes"]
        replay = state.trees["replay"]
        self._replay_buffer.clear()
        for index in range(min(state.facts["rounds"], self._settings.buffer_size)):
            self._replay_buffer.append(
                Rollout(**{name: array[index] for name, array in replay.items()})
            )
        self._rounds_done = state.facts["rounds"]
        self._rng.bit_generator.state = state.facts["rng"]
        self._policy_weights = networks.to_numpy(self._weights)

    def _collect_rollout(self, epsilon: FloatArray) -> Rollout:
        settings, rng = self._settings, self._rng
        length, nodes = settings.sequence_length, settings.nodes
        signals = len(OBSERVATION)
        inputs = np.empty((length + 1, nodes, self.inputs.size), np.float32)
        episode_starts = np.empty((length + 1, nodes), np.bool_)
        actions = np.empty((length, nodes), np.int64)
        components = np.empty((length, nodes, COMPONENTS), np.float32)
        interval = np.empty((length, nodes), np.int64)
        dials = np.empty((length, nodes, dial.SIGNALS))
        hidden = self._hidden.copy()
        for step in range(length + 1):
            if self._episode_starts.any():
                self._dials = self._dials.copy()
                self._dials[self._episode_starts] = settings.dials.sample(
                    int(self._episode_starts.sum()), rng
                )
            inputs[step, :, :signals] = self._env.observe()
            inputs[step, :, signals:] = dial.signals(self._dials)
            episode_starts[step] = self._episode_starts
            if step == length:
                break
            self._hidden[self._episode_starts] = 0.0
            q, self._hidden = forward(
                self.architecture, self._policy_weights, inputs[step], self._hidden
            )
            explores = rng.random(nodes) < epsilon
            actions[step] = np.where(
                explores, rng.integers(GRID.size, size=nodes), q.argmax(axis=1)
            )
            dials[step] = self._dials
            outcome = self._env.step(actions[step])
            components[step], interval[step] = outcome.components, outcome.interval
            self._episode_starts = outcome.finished
        return Rollout(
            inputs,
            episode_starts,
            hidden,
            actions,
            components,
            interval,
            dials,
            ~episode_starts[1:],
        )

    def _sample_batches(self) -> list[np.ndarray]:
        """Return a batch for every update, stacked, with the costs at the prices of its dials."""
        settings, rng = self._settings, self._rng
        shape = (settings.gradient_steps, settings.batch_size)
        rounds = rng.integers(len(self._replay_buffer), size=shape)
        nodes = rng.integers(settings.nodes, size=shape)
        batches = []
        for update in range(settings.gradient_steps):
            samples = [
                self._replay_buffer[index].select(nodes[update][rounds[update] == index])
                for index in np.unique(rounds[update])
            ]
            arrays = [
                np.concatenate(parts, axis=0 if name == "hidden" else 1)
                for name, parts in zip(
                    Rollout.__dataclass_fields__, zip(*samples, strict=True), strict=True
                )
            ]
            inputs, episode_starts, hidden, actions, components, interval, dials, continues = arrays
            rewards = -costs(components, dials) / (1.0 + settings.cost_scale * dials[..., 0])
            discounts = settings.discount**interval
            batches.append(
                (
                    inputs,
                    episode_starts,
                    hidden,
                    actions,
                    rewards.astype(np.float32),
                    discounts.astype(np.float32),
                    continues,
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
    """Return the epsilon of every node: zero for the first ones, then increasing."""
    epsilon = np.geomspace(*settings.epsilon_range, settings.nodes)
    epsilon[: int(settings.greedy_share * settings.nodes)] = 0.0
    return epsilon


def _figures(rollout: Rollout, which: BoolArray) -> Figures:
    """Return what the chosen nodes spent and missed, whatever their dials."""
    gas, misses, encounters, waiting, detections = (
        rollout.components[:, which].reshape(-1, COMPONENTS).sum(axis=0).tolist()
    )
    units = float(rollout.interval[:, which].sum())
    return {
        "decisions": float(rollout.actions.size),
        "gas": 365.0 * gas / units,
        "miss_rate": misses / max(encounters, 1.0),
        "latency": waiting / max(detections, 1.0),
        "interval": units / rollout.interval[:, which].size,
    }


def _make_updates(architecture: Architecture, settings: PlusSettings, optimiser: Any) -> Any:
    def loss(weights: Weights, target_weights: Weights, batch: tuple[Array, ...]) -> Array:
        inputs, episode_starts, hidden, actions, rewards, discounts, continues = batch
        online_q = networks.unroll(architecture, weights, inputs, hidden, episode_starts)
        target_q = networks.unroll(architecture, target_weights, inputs, hidden, episode_starts)
        targets = q_lambda_targets(
            next_q(target_q, online_q), rewards, discounts, continues, settings.trace_decay
        )
        q = jnp.take_along_axis(online_q[:-1], actions[..., None], axis=-1)[..., 0]
        # What follows the last decision before the horizon is unknown, so it is left out. With a
        # horizon of one unit nothing is left.
        return jnp.sum(continues * (q - targets) ** 2) / jnp.maximum(jnp.sum(continues), 1)

    @jax.jit
    def run(start: Any, batches: Any) -> Any:
        def update(state: Any, batch: Any) -> Any:
            weights, target_weights, optimiser_state = state
            (weights, optimiser_state), value = networks.gradient_step(
                optimiser, lambda w: loss(w, target_weights, batch), weights, optimiser_state
            )
            target_weights = optax.incremental_update(weights, target_weights, settings.tau)
            return (weights, target_weights, optimiser_state), value

        return lax.scan(update, start, tuple(batches))

    return run
