"""The simulation of many nodes at once: the constrained POMDP of the paper, vectorised.

A step is one decision of every node. Every node has its own time, because intervals differ.
`environment` is the same simulation for a single node.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.model.action import GRID
from holdfast.model.arrays import BoolArray, FloatArray, IntArray, put
from holdfast.model.observation import History, empty_history, record
from holdfast.model.scenario import Scenario
from holdfast.model.truth import Truth
from holdfast.sim.growth import Growth
from holdfast.sim.streams import Rng
from holdfast.sim.world import World

MAX_INTERVAL = max(GRID.intervals)


@dataclass(frozen=True)
class Nodes:
    """The hidden state of each node, and the history a scheduler may observe."""

    time: IntArray
    malicious: BoolArray
    corrupted: IntArray
    honest_rate: FloatArray
    malicious_rate: FloatArray
    bursting: BoolArray
    quiet: IntArray  # units since the last detection
    load: FloatArray
    history: History

    @property
    def truth(self) -> Truth:
        return Truth(self.malicious, self.corrupted)


@dataclass(frozen=True)
class StepResult:
    """What one audit of each node cost and detected."""

    gas: FloatArray
    compute: FloatArray
    corrupted: IntArray  # at the audit, before a repair
    malicious: BoolArray
    encounter: BoolArray
    detection: BoolArray
    miss: BoolArray
    miss_probability: FloatArray  # of this audit, given the corruption present; 0 without any
    finished: BoolArray
    growth: Growth  # in the interval before the audit


def start(world: World, batch: int, rng: Rng, malicious: BoolArray | None = None) -> Nodes:
    """Return nodes at the start of an episode, of random or given types."""
    scenario = world.scenario
    uniform = rng.random((batch, 5))
    zero = np.zeros(batch, np.int64)
    is_malicious = uniform[:, 0] < scenario.malicious_share
    return Nodes(
        time=zero,
        malicious=is_malicious if malicious is None else malicious,
        corrupted=zero,
        honest_rate=scenario.honest_rate * scenario.honest_spread ** (2 * uniform[:, 1] - 1),
        malicious_rate=scenario.malicious_rate
        * scenario.malicious_spread ** (2 * uniform[:, 2] - 1),
        bursting=uniform[:, 3] < scenario.burst_share,
        quiet=zero,
        load=uniform[:, 4],
        history=empty_history(batch),
    )


def restart(world: World, nodes: Nodes, which: BoolArray, rng: np.random.Generator) -> Nodes:
    """Return the nodes with the chosen ones at the start of a new episode."""
    chosen = np.flatnonzero(which)
    return put(nodes, chosen, start(world, len(chosen), rng)) if len(chosen) else nodes


def step(world: World, nodes: Nodes, actions: IntArray, rng: Rng) -> tuple[Nodes, StepResult]:
    """Let every node wait its interval, then audit it; a detection repairs everything."""
    scenario = world.scenario
    interval = world.interval[actions]
    uniform = rng.random((len(actions), 4))

    malicious, bursting, loss_probability = _wait(scenario, nodes, interval, rng)
    probability = loss_probability[interval - 1, np.arange(len(actions))]
    grown = rng.binomial(scenario.blocks - nodes.corrupted, probability)
    corrupted = nodes.corrupted + grown
    time = nodes.time + interval

    detection_probability = world.detection[
        world.row[actions], np.minimum(corrupted, world.max_listed)
    ]
    encounter = corrupted > 0
    detection = uniform[:, 1] < detection_probability
    load_memory = world.load_memory[actions]
    load = load_memory * nodes.load + (1.0 - load_memory) * uniform[:, 2]
    response = _response(scenario, load, corrupted, uniform[:, 3])

    outcome = StepResult(
        gas=world.gas[actions],
        compute=world.compute[actions],
        corrupted=corrupted,
        malicious=malicious,
        encounter=encounter,
        detection=detection,
        miss=encounter & ~detection,
        miss_probability=np.where(encounter, 1.0 - detection_probability, 0.0),
        finished=time >= scenario.horizon,
        growth=Growth(interval, nodes.corrupted, grown, loss_probability, uniform[:, 0]),
    )
    audited = Nodes(
        time=time,
        malicious=malicious,
        corrupted=np.where(detection, 0, corrupted),
        honest_rate=nodes.honest_rate,
        malicious_rate=nodes.malicious_rate,
        bursting=bursting,
        quiet=np.where(detection, 0, nodes.quiet + interval),
        load=load,
        history=record(
            nodes.history,
            interval.astype(np.float64),
            detection.astype(np.float64),
            response,
            scenario.constants,
        ),
    )
    return audited, outcome


def _wait(
    scenario: Scenario, nodes: Nodes, interval: IntArray, rng: Rng
) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Return types and bursts after the interval, and the probability of a loss by each unit."""
    malicious, bursting = nodes.malicious, nodes.bursting
    if not scenario.steady:
        turn, burst = np.moveaxis(rng.random((len(interval), 2, MAX_INTERVAL)), 0, -1)
    loss_probability = np.empty((int(interval.max()), len(interval)))
    survival = np.ones(len(interval))
    for unit in range(len(loss_probability)):
        if not scenario.steady:
            running = unit < interval
            turning = np.where(malicious, scenario.turn_honest, scenario.turn_malicious)
            changing = np.where(bursting, scenario.burst_end, scenario.burst_start)
            malicious = malicious ^ (running & (turn[unit] < turning))
            bursting = bursting ^ (running & (burst[unit] < changing))
        if unit == 0 or not scenario.steady:
            survival_per_unit = 1.0 - _rate(
                scenario, nodes, malicious, bursting, nodes.quiet + unit
            )
        survival *= survival_per_unit
        np.subtract(1.0, survival, out=loss_probability[unit])
    return malicious, bursting, loss_probability


def _rate(
    scenario: Scenario, nodes: Nodes, malicious: BoolArray, bursting: BoolArray, quiet: IntArray
) -> FloatArray:
    """Return the probability that a block goes bad in one unit."""
    burst = np.where(bursting, scenario.burst_factor, 1.0)
    bold = np.where(quiet >= scenario.quiet_after, scenario.quiet_factor, 1.0)
    return np.where(malicious, nodes.malicious_rate * bold, nodes.honest_rate * burst)


def _response(
    scenario: Scenario, load: FloatArray, corrupted: IntArray, uniform: FloatArray
) -> FloatArray:
    """Return the seconds each node takes to answer."""
    noise = (uniform / (1.0 - uniform)) ** scenario.latency_noise
    strain = scenario.latency_load * load
    tampering = scenario.latency_tampering * (corrupted / scenario.blocks)
    return scenario.latency_median * noise * np.exp(strain + tampering)
