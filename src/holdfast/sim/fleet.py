"""The simulation of many nodes at once: the constrained POMDP of the paper, vectorised.

A step is one decision of every node. Every node has its own time, because intervals differ.
`environment` is the same simulation for a single node.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray, IntArray, put
from holdfast.model.observation import empty_history, record
from holdfast.model.scenario import Scenario
from holdfast.sim.draws import KeyedDraws, Rng
from holdfast.sim.growth import Growth
from holdfast.sim.interval import draw_interval, draw_units
from holdfast.sim.nodes import Nodes
from holdfast.sim.world import World

__all__ = ["Nodes", "StepResult", "restart", "start", "step"]


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
    uniform = rng.start() if isinstance(rng, KeyedDraws) else rng.random((batch, 5))
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
    waited = (
        draw_units(scenario, nodes, interval, rng)
        if isinstance(rng, KeyedDraws)
        else draw_interval(scenario, nodes, interval, rng)
    )
    corrupted = nodes.corrupted + waited.growth.grown
    time = nodes.time + interval

    detection_probability = world.detection[
        world.row[actions], np.minimum(corrupted, world.max_listed)
    ]
    encounter = corrupted > 0
    detection = waited.audit < detection_probability
    response = _response(scenario, waited.load, corrupted, waited.response)

    outcome = StepResult(
        gas=world.gas[actions],
        compute=world.compute[actions],
        corrupted=corrupted,
        malicious=waited.malicious,
        encounter=encounter,
        detection=detection,
        miss=encounter & ~detection,
        miss_probability=np.where(encounter, 1.0 - detection_probability, 0.0),
        finished=time >= scenario.horizon,
        growth=waited.growth,
    )
    audited = Nodes(
        time=time,
        malicious=waited.malicious,
        corrupted=np.where(detection, 0, corrupted),
        honest_rate=nodes.honest_rate,
        malicious_rate=nodes.malicious_rate,
        bursting=waited.bursting,
        quiet=np.where(detection, 0, nodes.quiet + interval),
        load=waited.load,
        history=record(
            nodes.history,
            interval.astype(np.float64),
            detection.astype(np.float64),
            response,
            scenario.constants,
        ),
    )
    return audited, outcome


def _response(
    scenario: Scenario, load: FloatArray, corrupted: IntArray, uniform: FloatArray
) -> FloatArray:
    """Return the seconds each node takes to answer."""
    noise = (uniform / (1.0 - uniform)) ** scenario.latency_noise
    strain = scenario.latency_load * load
    tampering = scenario.latency_tampering * (corrupted / scenario.blocks)
    return scenario.latency_median * noise * np.exp(strain + tampering)
