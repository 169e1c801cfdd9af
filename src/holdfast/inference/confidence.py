"""How sure an owner can be: the misses behind it and the damage of now, neither of them observed.

Both are averaged over worlds that the fit allows, so that its uncertainty is in every figure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.inference.backward_sampling import draw_histories, pick
from holdfast.inference.efficacy import SOUNDLY, Efficacy
from holdfast.inference.estimate import Estimate
from holdfast.inference.fit import Fitted, expit
from holdfast.inference.forward_filter import NodeBatch, filter_of, lots, passed_through
from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.scenario import Scenario
from holdfast.policy.filter import BayesFilter, Belief

WORLDS = 25
HISTORIES = 8  # in each of them
# Standard deviations of a 95 % interval, when so many worlds tell the variance (Student's t). The
# quantiles of so few draws would be too narrow.
STUDENT_95 = 2.064
SURELY = 0.95


@dataclass(frozen=True, eq=False)
class Damage:
    """The damage of each node as of now."""

    at_most: FloatArray  # (nodes,) share of its blocks damaged, at 95 %
    damaged: FloatArray  # (nodes,) probability that any block is


@dataclass(frozen=True, eq=False)
class Confidence:
    miss_rate: Estimate  # misses / (misses + detections), over the whole log
    detections: int
    at_most: FloatArray  # as in Damage
    damaged: FloatArray
    fleet_at_most: float  # share of all blocks together, at 95 %


def confidence(log: Log, fitted: Fitted, *, works: Efficacy = SOUNDLY, seed: int = 0) -> Confidence:
    """Return what the log says of what nobody observed, if audits work as canaries tell."""
    source = np.random.default_rng((seed, 1))
    mixture = _Mixture(log, fitted.scenario)
    misses = np.zeros((WORLDS, HISTORIES), np.int64)
    damaged = np.zeros((WORLDS, HISTORIES), np.int64)
    for at, (scenario, share) in enumerate(_worlds(fitted, works, seed)):
        for lot, bayes in mixture.lots_in(scenario, share):
            drawn = draw_histories(bayes, log, lot, HISTORIES, source)
            misses[at] += drawn.misses.sum(axis=1)
            count = mixture.add(lot, bayes, drawn.belief)
            now = pick(np.broadcast_to(count, (HISTORIES, *count.shape)), source)
            damaged[at] += bayes.cells[now].sum(axis=1)
    detections, told = int(log.failed.sum()), mixture.damage()
    total = max(int(log.blocks.sum()), 1)
    return Confidence(
        miss_rate=_estimate(misses, detections),
        detections=detections,
        at_most=told.at_most,
        damaged=told.damaged,
        fleet_at_most=float(np.quantile(damaged, SURELY, method="higher")) / total,
    )


def damage(log: Log, fitted: Fitted, *, works: Efficacy = SOUNDLY, seed: int = 0) -> Damage:
    """Return the damage of now alone: what `confidence` says of it, of any part of a fleet."""
    mixture = _Mixture(log, fitted.scenario)
    for scenario, share in _worlds(fitted, works, seed):
        for lot, bayes in mixture.lots_in(scenario, share):
            mixture.add(lot, bayes, passed_through(bayes, log, lot))
    return mixture.damage()


def _worlds(fitted: Fitted, works: Efficacy, seed: int) -> Iterator[tuple[Scenario, float]]:
    """Yield worlds that the fit allows, each with an efficacy; equal for every part of a fleet."""
    source = np.random.default_rng((seed, 0))
    for _ in range(WORLDS):
        yield fitted.draw(source), works.draw(source)


class _Mixture:
    """What is believed of each node's damage now, averaged over worlds."""

    def __init__(self, log: Log, scenario: Scenario) -> None:
        self._log, self._every = log, lots(log)
        sizes = {lot.blocks for lot in self._every}
        self._cells = {blocks: filter_of(scenario, blocks).cells for blocks in sizes}
        self._counts = {
            id(lot): np.zeros((len(lot.nodes), len(self._cells[lot.blocks]))) for lot in self._every
        }

    def lots_in(self, scenario: Scenario, share: float) -> Iterator[tuple[NodeBatch, BayesFilter]]:
        filters = {blocks: filter_of(scenario, blocks, share) for blocks in self._cells}
        for lot in self._every:
            yield lot, filters[lot.blocks]

    def add(self, lot: NodeBatch, bayes: BayesFilter, belief: Belief) -> FloatArray:
        """Let the belief after the last audits grow up to now; return its counts in this world."""
        count = bayes.count(bayes.predict(belief, self._log.elapsed[lot.nodes]))
        self._counts[id(lot)] += count / WORLDS
        return count

    def damage(self) -> Damage:
        at_most, likely = np.empty(self._log.nodes), np.empty(self._log.nodes)
        for lot in self._every:
            count = self._counts[id(lot)]
            at_most[lot.nodes] = upper(self._cells[lot.blocks], count) / max(lot.blocks, 1)
            likely[lot.nodes] = 1.0 - count[:, 0]
        return Damage(at_most, np.maximum(likely, 0.0))


def upper(cells: IntArray, count: FloatArray) -> IntArray:
    """Return the number of damaged blocks that is not exceeded, at 95 %.

    A cell stands for the counts around it too: the highest of them is what can be said surely.
    """
    reached = np.cumsum(count, axis=1) >= SURELY * (1 - 1e-12)
    highest = np.append(cells[1:] - 1, cells[-1])
    return np.asarray(highest[np.where(reached.any(axis=1), reached.argmax(axis=1), -1)], np.int64)


def _estimate(misses: IntArray, detections: int) -> Estimate:
    """Return the miss rate, from draws of the misses; half an event on each side avoids 0 / 0."""
    odds = np.log(misses + 0.5) - np.log(detections + 0.5)
    middle, width = odds.mean(), STUDENT_95 * odds.std(ddof=1)
    return Estimate(*map(float, expit(np.array([middle, middle - width, middle + width]))))
