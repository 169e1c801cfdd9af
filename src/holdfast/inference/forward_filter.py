"""The forward pass: the Bayes filter over a log of audits, step by step.

Damage that was counted after a failure is evidence like any other outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray, take
from holdfast.model.scenario import Scenario
from holdfast.policy.filter import BayesFilter, Belief

# The probability that a count is an outlier, which may be any: no count rules a type out forever.
OUTLIER = 1e-9
BATCH_SIZE = 256  # nodes whose beliefs after every audit are in memory at once to sample histories

OnStep = Callable[[Belief, Belief], None]  # called with the belief before and after each audit


@dataclass(frozen=True, eq=False)
class World:
    """A scenario, and the share of samples with a damaged block that fail in it."""

    scenario: Scenario
    efficacy: float = 1.0


@dataclass(frozen=True, eq=False)
class NodeBatch:
    """Nodes of equal size, those with most audits first, so that every step is a prefix."""

    blocks: int
    nodes: IntArray
    steps: tuple[IntArray, ...]  # rows of the log: the first of each node, the second, ...


def make_batches(log: Log) -> list[NodeBatch]:
    """Return all nodes of a log, in batches."""
    audits = np.bincount(log.node, minlength=log.nodes)
    first = np.cumsum(audits) - audits
    batches = []
    for blocks in np.unique(log.blocks).tolist():
        same = np.flatnonzero(log.blocks == blocks)
        same = same[np.argsort(-audits[same], kind="stable")]
        for start in range(0, len(same), BATCH_SIZE):
            nodes = same[start : start + BATCH_SIZE]
            steps = range(int(audits[nodes[0]]))
            rows = tuple(first[nodes[audits[nodes] > step]] + step for step in steps)
            batches.append(NodeBatch(blocks, nodes, rows))
    return batches


def subsample(batches: list[NodeBatch], count: int) -> list[NodeBatch]:
    """Return batches of about `count` of the nodes, evenly chosen."""
    stride = max(1, sum(len(batch.nodes) for batch in batches) // count)
    return [
        NodeBatch(
            batch.blocks, batch.nodes[::stride], tuple(rows[::stride] for rows in batch.steps)
        )
        for batch in batches
    ]


def run_filter(
    bayes: BayesFilter,
    log: Log,
    batch: NodeBatch,
    on_step: OnStep = lambda *_: None,
    *,
    blur: float = 0.0,
) -> Belief:
    """Return the belief about the batch's nodes after the last audit of each.

    With a blur, the logarithm of a count has this standard error.
    """
    belief = bayes.initial(len(batch.nodes))
    for rows in batch.steps:
        prefix = np.arange(len(rows))
        before = bayes.predict(take(belief, prefix), log.interval[rows])
        after = update_on_audits(bayes, before, log, rows, blur)
        on_step(before, after)
        for name, new in vars(after).items():
            getattr(belief, name)[: len(rows)] = new
    return belief


def update_on_audits(
    bayes: BayesFilter, belief: Belief, log: Log, rows: IntArray, blur: float = 0.0
) -> Belief:
    """Return the belief after the audits in these rows, and the damage counted after them."""
    sampled, damaged = log.sampled[rows], log.damaged[rows]
    after = bayes.update(belief, sampled, log.failed[rows])
    counted = np.flatnonzero(damaged > 0)
    if not len(counted):
        return after
    density = count_density(bayes.cells, belief.counts[counted], damaged[counted], blur)
    detection = bayes.efficacy * bayes.scenario.detection_probability(
        damaged[counted], sampled[counted]
    )
    likelihood = (density + OUTLIER / bayes.scenario.blocks) * detection[:, np.newaxis]
    log_joint = belief.log_weights[counted] + np.log(likelihood)
    log_evidence = np.logaddexp.reduce(log_joint, axis=1)
    after.log_weights[counted] = log_joint - log_evidence[:, np.newaxis]
    after.log_likelihood[counted] = belief.log_likelihood[counted] + log_evidence
    return after


def count_density(
    cells: IntArray, counts: FloatArray, damaged: IntArray, blur: float
) -> FloatArray:
    """Return the probability of exactly this many damaged blocks: (batch, modes).

    A cell stands for the counts around it, with weights that fall with the distance. `counts` may
    have only the first cells; the others have probability 0. With a blur, the result is the density
    of the logarithm of a count that has this standard error.
    """
    width = counts.shape[2]
    if blur > 0:
        kernel = blurred_kernel(cells[:width], damaged, blur)
        return np.asarray(np.einsum("bmc,bc->bm", counts, kernel), np.float64)
    lower, share = interpolate(cells, damaged)
    density = np.zeros(counts.shape[:2])
    for cell, part in ((lower, 1 - share), (lower + 1, share)):
        inside = np.flatnonzero(cell < width)
        here = cell[inside]
        weight = part[inside] / _cell_width(cells, here)
        density[inside] += counts[inside, :, here] * weight[:, np.newaxis]
    return density


def _cell_width(cells: IntArray, which: IntArray) -> FloatArray:
    """Return how many counts a cell stands for."""
    last = len(cells) - 1
    above = np.where(which < last, cells[np.minimum(which + 1, last)], cells[-1] + 1)
    below = np.where(which > 0, cells[np.maximum(which - 1, 0)], -1)
    return np.asarray(0.5 * (above - below), np.float64)


def interpolate(cells: IntArray, counts: IntArray) -> tuple[IntArray, FloatArray]:
    """Return the cell at or below each count, and the share that belongs to the next one."""
    lower = np.clip(np.searchsorted(cells, counts, side="right") - 1, 0, len(cells) - 2)
    return lower, (counts - cells[lower]) / (cells[lower + 1] - cells[lower])


def blurred_kernel(cells: IntArray, damaged: IntArray, blur: float) -> FloatArray:
    """Return how near each cell is to a count, relative to the cell at it: (batch, cells)."""
    log_error = np.log(damaged)[:, np.newaxis] - np.log(np.maximum(cells, 0.5))
    return np.asarray(np.exp(-0.5 * (log_error / blur) ** 2), np.float64)
