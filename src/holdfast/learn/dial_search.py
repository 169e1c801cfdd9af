"""The search for dials: prices are tried on episodes until every pair of ceilings has a dial.

The prices that keep given ceilings at the least gas are not known beforehand. The search keeps
all results so far and continues from the best ones for every pair of ceilings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import Float32Array, FloatArray, IntArray, take
from holdfast.model.observation import observe
from holdfast.model.scenario import Scenario
from holdfast.policy import dial
from holdfast.policy.dial import Dial, ValidatedDial, with_margins
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.network import Architecture, Parameters, forward
from holdfast.sim import fleet
from holdfast.sim.evaluation import types
from holdfast.sim.tally import TallyBuilder
from holdfast.sim.world import world_of

MAX_PARALLEL_EPISODES = 4096
FIRST_ROUND = (64, 100)  # dials sampled for each pair of ceilings, and episodes of each dial
# Then the best so far of each pair are varied: how many of them, how often each, by what factor
# (the standard deviation of its logarithm) in the prices and in the ceilings that the network
# sees, and episodes of each variant.
REFINEMENTS = ((3, 4, 0.25, 0.0, 200), (3, 4, 0.12, 0.04, 400), (3, 3, 0.05, 0.04, 800))
# Finally the best of each pair are evaluated longer: how many, and episodes of each.
SEMIFINAL = (10, 1500)
FINALISTS = 4
# A dial that exceeds a ceiling by a tenth ranks like one with this share of gas added.
VIOLATION_PENALTY = 1.0


@dataclass(frozen=True)
class DialResults:
    """What dials achieved; `dials` is (dials, 4)."""

    dials: FloatArray
    gas: FloatArray
    miss_rate: FloatArray
    latency: FloatArray

    def concat(self, other: "DialResults") -> "DialResults":
        return DialResults(
            np.concatenate((self.dials, other.dials)),
            np.concatenate((self.gas, other.gas)),
            np.concatenate((self.miss_rate, other.miss_rate)),
            np.concatenate((self.latency, other.latency)),
        )

    def best(self, ceilings: Ceilings, count: int) -> IntArray:
        """Return the cheapest dials; those that exceed a ceiling rank lower by a penalty."""
        aim = with_margins(ceilings)
        violation = np.maximum(self.miss_rate / aim.miss_rate - 1, 0)
        if aim.latency is not None:
            violation += np.maximum(self.latency / aim.latency - 1, 0)
        order = np.argsort(self.gas * (1 + 10 * VIOLATION_PENALTY * violation), kind="stable")
        return np.asarray(order[:count], np.int64)


def search_dials(
    architecture: Architecture,
    parameters: Parameters,
    scenario: Scenario,
    sample_around: Callable[[Ceilings, int, np.random.Generator], FloatArray],
    targets: Sequence[Ceilings],
    *,
    seed: int,
    episodes: int,
    on_progress: Callable[[float], None] = lambda _share: None,
) -> tuple[ValidatedDial, ...]:
    """Return dials for these ceilings, each validated on this many episodes."""
    rng = np.random.default_rng(seed)

    def evaluate(dials: FloatArray, episodes_per_dial: int) -> DialResults:
        return evaluate_dials(architecture, parameters, scenario, dials, episodes_per_dial, rng)

    first = [sample_around(target, FIRST_ROUND[0], rng) for target in targets]
    results = evaluate(_clip(np.concatenate(first)), FIRST_ROUND[1])
    for round_number, (parents, children, prices, ceilings, episodes_per_dial) in enumerate(
        REFINEMENTS, start=1
    ):
        on_progress(round_number / (len(REFINEMENTS) + 2))
        chosen = np.concatenate([results.best(target, parents) for target in targets])
        variants = np.repeat(results.dials[np.unique(chosen)], children, axis=0)
        spread = np.array((prices, prices, ceilings, ceilings))
        variants = variants * np.exp(spread * rng.standard_normal(variants.shape))
        results = results.concat(evaluate(_clip(variants), episodes_per_dial))
    for count, episodes_per_dial in (SEMIFINAL, (FINALISTS, episodes)):
        on_progress(1 - 1 / (len(REFINEMENTS) + 2))
        best = np.unique(np.concatenate([results.best(target, count) for target in targets]))
        results = evaluate(results.dials[best], min(episodes_per_dial, episodes))
    on_progress(1.0)
    figures = zip(results.dials, results.gas, results.miss_rate, results.latency, strict=True)
    return tuple(
        ValidatedDial(
            Dial(*dial_values.tolist()), float(gas), float(miss_rate), float(latency), episodes
        )
        for dial_values, gas, miss_rate, latency in figures
    )


def evaluate_dials(
    architecture: Architecture,
    parameters: Parameters,
    scenario: Scenario,
    dials: FloatArray,
    episodes: int,
    rng: np.random.Generator,
) -> DialResults:
    """Run every dial on this many episodes, with the same number of malicious nodes for each."""
    dials_per_batch = max(1, MAX_PARALLEL_EPISODES // episodes)
    parts = [
        _evaluate_batch(
            architecture,
            parameters,
            scenario,
            dials[start : start + dials_per_batch],
            episodes,
            rng,
        )
        for start in range(0, len(dials), dials_per_batch)
    ]
    sums = np.concatenate(parts)
    gas, misses, detections, latency = sums.T
    return DialResults(
        dials=dials,
        gas=gas / episodes,
        miss_rate=misses / np.maximum(misses + detections, 1),
        latency=latency / np.maximum(detections, 1),
    )


def _evaluate_batch(
    architecture: Architecture,
    parameters: Parameters,
    scenario: Scenario,
    dials: FloatArray,
    episodes: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return gas, misses, detections and latency of every dial, summed over its episodes."""
    world = world_of(scenario)
    malicious_of_one = types(scenario.malicious_share, episodes, 0)
    malicious = np.tile(malicious_of_one, len(dials))
    nodes = fleet.start(world, len(malicious), rng, malicious)
    hidden: Float32Array = np.zeros((len(malicious), architecture.recurrent), np.float32)
    signals = np.repeat(dial.signals(dials), episodes, axis=0)
    episode = np.arange(len(malicious))
    tallies = TallyBuilder(malicious)
    while len(episode):
        inputs = np.column_stack((observe(nodes.history, scenario.constants), signals))
        q, hidden = forward(architecture, parameters, inputs, hidden)
        nodes, outcome = fleet.step(world, nodes, q.argmax(axis=1), rng)
        tallies.record(episode, nodes, outcome)
        alive = ~outcome.finished
        if not alive.all():
            nodes, hidden, signals, episode = take((nodes, hidden, signals, episode), alive)
    tally = tallies.build()
    columns = np.column_stack((tally.gas, tally.misses, tally.detections, tally.latency))
    sums: FloatArray = columns.reshape(len(dials), episodes, -1).sum(axis=1)
    return sums


def _clip(dials: FloatArray) -> FloatArray:
    """Return the dials, clipped to the range of the signals."""
    low, high = np.array(dial.RANGES).T
    return np.clip(dials, low, high)
