"""Which dials to offer: prices are tried on episodes until each pair of ceilings has its own.

The prices that keep given ceilings at the least gas are not known beforehand. The search keeps
everything it has tried, and goes on from what came closest for each pair of ceilings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import Float32Array, FloatArray, IntArray, take
from holdfast.model.observation import observe
from holdfast.model.scenario import Scenario
from holdfast.policy import dial
from holdfast.policy.dial import LATENCY_MARGIN, MISS_MARGIN, Dial, Validated
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.network import Architecture, Parameters, forward
from holdfast.sim import fleet
from holdfast.sim.evaluation import types
from holdfast.sim.tally import TallyBuilder
from holdfast.sim.world import world_of

AT_ONCE = 4096  # episodes that run side by side
FIRST = (64, 100)  # dials drawn for each pair of ceilings, and episodes of each dial
# Then for each pair the best so far are varied: how many of them, how often each, by what factor
# (the standard deviation of its logarithm) in the prices and in the ceilings that the network is
# told, and episodes of each variant.
LATER = ((3, 4, 0.25, 0.0, 200), (3, 4, 0.12, 0.04, 400), (3, 3, 0.05, 0.04, 800))
# At last the best of each pair are narrowed down: how many, and episodes of each.
SEMIFINAL = (10, 1500)
FINALISTS = 4
# A dial that breaks a ceiling by a tenth counts like one that costs so much more gas, as a share.
SEVERITY = 1.0


@dataclass(frozen=True)
class Found:
    """What dials (tried, 4) achieved."""

    dials: FloatArray
    gas: FloatArray
    miss_rate: FloatArray
    latency: FloatArray

    def joined(self, other: "Found") -> "Found":
        return Found(
            np.concatenate((self.dials, other.dials)),
            np.concatenate((self.gas, other.gas)),
            np.concatenate((self.miss_rate, other.miss_rate)),
            np.concatenate((self.latency, other.latency)),
        )

    def best(self, ceilings: Ceilings, count: int) -> IntArray:
        """Return the cheapest that keep the ceilings, those that nearly do at a penalty."""
        broken = np.maximum(self.miss_rate / (ceilings.miss_rate * (1 - MISS_MARGIN)) - 1, 0)
        if ceilings.latency is not None:
            most = ceilings.latency * (1 - LATENCY_MARGIN)
            broken += np.maximum(self.latency / most - 1, 0)
        order = np.argsort(self.gas * (1 + 10 * SEVERITY * broken), kind="stable")
        return np.asarray(order[:count], np.int64)


def validated(
    architecture: Architecture,
    parameters: Parameters,
    scenario: Scenario,
    around: Callable[[Ceilings, int, np.random.Generator], FloatArray],
    targets: Sequence[Ceilings],
    *,
    seed: int,
    episodes: int,
    hear: Callable[[float], None] = lambda _share: None,
) -> tuple[Validated, ...]:
    """Return dials for these ceilings, each validated on so many episodes."""
    draws = np.random.default_rng(seed)

    def tried(dials: FloatArray, each: int) -> Found:
        return attempt(architecture, parameters, scenario, dials, each, draws)

    first = [around(target, FIRST[0], draws) for target in targets]
    known = tried(_within(np.concatenate(first)), FIRST[1])
    for done, (parents, children, prices, ceilings, each) in enumerate(LATER, start=1):
        hear(done / (len(LATER) + 2))
        chosen = np.concatenate([known.best(target, parents) for target in targets])
        variants = np.repeat(known.dials[np.unique(chosen)], children, axis=0)
        spread = np.array((prices, prices, ceilings, ceilings))
        variants = variants * np.exp(spread * draws.standard_normal(variants.shape))
        known = known.joined(tried(_within(variants), each))
    for count, each in (SEMIFINAL, (FINALISTS, episodes)):
        hear(1 - 1 / (len(LATER) + 2))
        best = np.unique(np.concatenate([known.best(target, count) for target in targets]))
        known = tried(known.dials[best], min(each, episodes))
    hear(1.0)
    figures = zip(known.dials, known.gas, known.miss_rate, known.latency, strict=True)
    return tuple(
        Validated(Dial(*settings.tolist()), float(gas), float(miss_rate), float(latency), episodes)
        for settings, gas, miss_rate, latency in figures
    )


def attempt(
    architecture: Architecture,
    parameters: Parameters,
    scenario: Scenario,
    dials: FloatArray,
    episodes: int,
    draws: np.random.Generator,
) -> Found:
    """Run each dial on so many episodes, with as many malicious nodes for each."""
    together = max(1, AT_ONCE // episodes)
    parts = [
        _side_by_side(
            architecture, parameters, scenario, dials[first : first + together], episodes, draws
        )
        for first in range(0, len(dials), together)
    ]
    sums = np.concatenate(parts)
    gas, misses, detections, latency = sums.T
    return Found(
        dials=dials,
        gas=gas / episodes,
        miss_rate=misses / np.maximum(misses + detections, 1),
        latency=latency / np.maximum(detections, 1),
    )


def _side_by_side(
    architecture: Architecture,
    parameters: Parameters,
    scenario: Scenario,
    dials: FloatArray,
    episodes: int,
    draws: np.random.Generator,
) -> FloatArray:
    """Return by dial the gas, misses, detections and latency, summed over its episodes."""
    world = world_of(scenario)
    kind = types(scenario.malicious_share, episodes, 0)
    malicious = np.tile(kind, len(dials))
    nodes = fleet.start(world, len(malicious), draws, malicious)
    hidden: Float32Array = np.zeros((len(malicious), architecture.recurrent), np.float32)
    signals = np.repeat(dial.signals(dials), episodes, axis=0)
    episode = np.arange(len(malicious))
    book = TallyBuilder(malicious)
    while len(episode):
        seen = np.column_stack((observe(nodes.history, scenario.constants), signals))
        outputs, hidden = forward(architecture, parameters, seen, hidden)
        nodes, outcome = fleet.step(world, nodes, outputs.argmax(axis=1), draws)
        book.enter(episode, nodes, outcome)
        alive = ~outcome.finished
        if not alive.all():
            nodes, hidden, signals, episode = take((nodes, hidden, signals, episode), alive)
    tally = book.closed()
    columns = np.column_stack((tally.gas, tally.misses, tally.detections, tally.latency))
    sums: FloatArray = columns.reshape(len(dials), episodes, -1).sum(axis=1)
    return sums


def _within(dials: FloatArray) -> FloatArray:
    """Return the dials, none beyond what the signals span."""
    low, high = np.array(dial.RANGES).T
    return np.clip(dials, low, high)
