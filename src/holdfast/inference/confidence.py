"""Confidence in a fleet: its hidden miss rate so far and its damage now, from the log of audits.

Both are averaged over scenarios sampled from the fit, so every figure includes its uncertainty.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.inference.backward_sampling import sample_histories, sample_index
from holdfast.inference.efficacy import PERFECT, Efficacy
from holdfast.inference.fit import Fitted, expit
from holdfast.inference.forward_filter import NodeBatch, filter_of, make_batches, run_filter
from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.estimate import Estimate
from holdfast.model.scenario import Scenario
from holdfast.policy.filter import BayesFilter, Belief

WORLDS = 25
HISTORIES = 8  # per world
# Half width of a 95 % interval in standard deviations, for this number of worlds (Student's t).
# Quantiles of so few samples would be too narrow.
STUDENT_95 = 2.064
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Damage:
    """The damage of each node now."""

    at_most: FloatArray  # (nodes,) share of its blocks damaged, at 95 %
    damaged: FloatArray  # (nodes,) probability that any block is


@dataclass(frozen=True, eq=False)
class Confidence:
    miss_rate: Estimate  # misses / (misses + detections), over the whole log
    detections: int
    at_most: FloatArray  # as in Damage
    damaged: FloatArray
    fleet_at_most: float  # share of all blocks together, at 95 %


def confidence(
    log: Log, fitted: Fitted, *, efficacy: Efficacy = PERFECT, seed: int = 0
) -> Confidence:
    """Return the confidence that a log gives, if audits detect damage as canaries showed."""
    rng = np.random.default_rng((seed, 1))
    mixture = _Mixture(log, fitted.scenario)
    misses = np.zeros((WORLDS, HISTORIES), np.int64)
    damaged = np.zeros((WORLDS, HISTORIES), np.int64)
    for world, (scenario, share) in enumerate(_worlds(fitted, efficacy, seed)):
        for batch, bayes in mixture.batches_in(scenario, share):
            histories = sample_histories(bayes, log, batch, HISTORIES, rng)
            misses[world] += histories.misses.sum(axis=1)
            count = mixture.add(batch, bayes, histories.belief)
            now = sample_index(np.broadcast_to(count, (HISTORIES, *count.shape)), rng)
            damaged[world] += bayes.cells[now].sum(axis=1)
    detections, damage_now = int(log.failed.sum()), mixture.damage()
    total = max(int(log.blocks.sum()), 1)
    return Confidence(
        miss_rate=_estimate(misses, detections),
        detections=detections,
        at_most=damage_now.at_most,
        damaged=damage_now.damaged,
        fleet_at_most=float(np.quantile(damaged, LEVEL, method="higher")) / total,
    )


def damage(log: Log, fitted: Fitted, *, efficacy: Efficacy = PERFECT, seed: int = 0) -> Damage:
    """Return the damage alone, as `confidence` reports it, for any part of a fleet."""
    mixture = _Mixture(log, fitted.scenario)
    for scenario, share in _worlds(fitted, efficacy, seed):
        for batch, bayes in mixture.batches_in(scenario, share):
            mixture.add(batch, bayes, run_filter(bayes, log, batch))
    return mixture.damage()


def _worlds(fitted: Fitted, efficacy: Efficacy, seed: int) -> Iterator[tuple[Scenario, float]]:
    """Yield scenarios sampled from the fit, each with an efficacy; the same for any log."""
    rng = np.random.default_rng((seed, 0))
    for _ in range(WORLDS):
        yield fitted.sample(rng), efficacy.sample(rng)


class _Mixture:
    """The belief about each node's damage now, averaged over worlds."""

    def __init__(self, log: Log, scenario: Scenario) -> None:
        self._log, self._batches = log, make_batches(log)
        sizes = {batch.blocks for batch in self._batches}
        self._cells = {blocks: filter_of(scenario, blocks).cells for blocks in sizes}
        self._counts = {
            id(batch): np.zeros((len(batch.nodes), len(self._cells[batch.blocks])))
            for batch in self._batches
        }

    def batches_in(
        self, scenario: Scenario, share: float
    ) -> Iterator[tuple[NodeBatch, BayesFilter]]:
        filters = {blocks: filter_of(scenario, blocks, share) for blocks in self._cells}
        for batch in self._batches:
            yield batch, filters[batch.blocks]

    def add(self, batch: NodeBatch, bayes: BayesFilter, belief: Belief) -> FloatArray:
        """Advance the belief after the last audits to now; return its counts in this world."""
        count = bayes.count(bayes.predict(belief, self._log.elapsed[batch.nodes]))
        self._counts[id(batch)] += count / WORLDS
        return count

    def damage(self) -> Damage:
        at_most, damaged = np.empty(self._log.nodes), np.empty(self._log.nodes)
        for batch in self._batches:
            count = self._counts[id(batch)]
            at_most[batch.nodes] = upper(self._cells[batch.blocks], count) / max(batch.blocks, 1)
            damaged[batch.nodes] = 1.0 - count[:, 0]
        return Damage(at_most, np.maximum(damaged, 0.0))


def upper(cells: IntArray, count: FloatArray) -> IntArray:
    """Return the number of damaged blocks that is not exceeded, at 95 %.

    A cell stands for the counts around it too, so the highest of them is the bound.
    """
    reached = np.cumsum(count, axis=1) >= LEVEL * (1 - 1e-12)
    highest = np.append(cells[1:] - 1, cells[-1])
    return np.asarray(highest[np.where(reached.any(axis=1), reached.argmax(axis=1), -1)], np.int64)


def _estimate(misses: IntArray, detections: int) -> Estimate:
    """Return the miss rate from sampled misses; half an event on each side avoids 0 / 0."""
    odds = np.log(misses + 0.5) - np.log(detections + 0.5)
    middle, width = odds.mean(), STUDENT_95 * odds.std(ddof=1)
    return Estimate(*map(float, expit(np.array([middle, middle - width, middle + width]))))
