"""How sure an owner can be: the misses behind it and the damage of now, neither of them observed.

Both are averaged over worlds that the fit allows, so that its uncertainty is in every figure.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.inference.efficacy import SOUNDLY, Efficacy
from holdfast.inference.estimate import Estimate
from holdfast.inference.fit import Fitted, expit
from holdfast.inference.histories import draw_histories, pick
from holdfast.inference.log import Log
from holdfast.inference.passage import filter_of, lots
from holdfast.model.arrays import FloatArray, IntArray

WORLDS = 25
HISTORIES = 8  # in each of them
# Standard deviations of a 95 % interval, when so many worlds tell the variance (Student's t). The
# quantiles of so few draws would be too narrow.
STUDENT_95 = 2.064
SURELY = 0.95


@dataclass(frozen=True, eq=False)
class Confidence:
    miss_rate: Estimate  # misses / (misses + detections), over the whole log
    detections: int
    at_most: FloatArray  # (nodes,) share of its blocks damaged, at 95 %, as of now
    fleet_at_most: float  # the same for all blocks together
    damaged: FloatArray  # (nodes,) probability that any block is


def confidence(log: Log, fitted: Fitted, *, works: Efficacy = SOUNDLY, seed: int = 0) -> Confidence:
    """Return what the log says of what nobody observed, if audits work as canaries tell."""
    source = np.random.default_rng(seed)
    every = lots(log)
    cells = {lot.blocks: filter_of(fitted.scenario, lot.blocks).cells for lot in every}
    mixed = [np.zeros((len(lot.nodes), len(cells[lot.blocks]))) for lot in every]
    misses = np.zeros((WORLDS, HISTORIES), np.int64)
    damaged = np.zeros((WORLDS, HISTORIES), np.int64)
    for world in range(WORLDS):
        scenario = fitted.draw(source)
        share = works.draw(source)
        filters = {blocks: filter_of(scenario, blocks, share) for blocks in cells}
        for at, lot in enumerate(every):
            bayes = filters[lot.blocks]
            drawn = draw_histories(bayes, log, lot, HISTORIES, source)
            misses[world] += drawn.misses.sum(axis=1)
            count = bayes.count(bayes.predict(drawn.belief, log.elapsed[lot.nodes]))
            mixed[at] += count / WORLDS
            now = pick(np.broadcast_to(count, (HISTORIES, *count.shape)), source)
            damaged[world] += bayes.cells[now].sum(axis=1)
    detections = int(log.failed.sum())
    at_most, likely = np.empty(log.nodes), np.empty(log.nodes)
    for lot, count in zip(every, mixed, strict=True):
        at_most[lot.nodes] = upper(cells[lot.blocks], count) / max(lot.blocks, 1)
        likely[lot.nodes] = 1.0 - count[:, 0]
    total = max(int(log.blocks.sum()), 1)
    return Confidence(
        miss_rate=_estimate(misses, detections),
        detections=detections,
        at_most=at_most,
        fleet_at_most=float(np.quantile(damaged, SURELY, method="higher")) / total,
        damaged=np.maximum(likely, 0.0),
    )


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
