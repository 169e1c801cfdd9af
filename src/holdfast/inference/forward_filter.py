"""The Bayes filter led through a log: what the audits so far say of each node, step by step.

Damage that was counted after a failure is weighed like any other outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray, take
from holdfast.model.scenario import Scenario
from holdfast.policy.count_bins import reduced_counts
from holdfast.policy.filter import BayesFilter, Belief
from holdfast.policy.hidden_states import modes_of

# Cells that widen by 4 % as the policies' do would add 18 % to the variance of a count of 250
# blocks; these add 4 %.
WIDENING = 1.02
# How likely a count is held to be a stray one, which may be any: none rules a type out for good.
STRAY = 1e-9
TOGETHER = 256  # nodes: their beliefs after every audit are kept at once to draw histories

Watcher = Callable[[Belief, Belief], None]  # hears what is believed before and after each audit


@dataclass(frozen=True, eq=False)
class NodeBatch:
    """Nodes of equal size, those with most audits first, so that each step is about a prefix."""

    blocks: int
    nodes: IntArray
    steps: tuple[IntArray, ...]  # rows of the log: the first of each node, the second, ...


def lots(log: Log) -> list[NodeBatch]:
    """Return all nodes of a log, in lots."""
    audits = np.bincount(log.node, minlength=log.nodes)
    first = np.cumsum(audits) - audits
    found = []
    for blocks in np.unique(log.blocks).tolist():
        same = np.flatnonzero(log.blocks == blocks)
        same = same[np.argsort(-audits[same], kind="stable")]
        for start in range(0, len(same), TOGETHER):
            nodes = same[start : start + TOGETHER]
            steps = range(int(audits[nodes[0]]))
            rows = tuple(first[nodes[audits[nodes] > step]] + step for step in steps)
            found.append(NodeBatch(blocks, nodes, rows))
    return found


def some(every: list[NodeBatch], count: int) -> list[NodeBatch]:
    """Return lots of about so many of the nodes, evenly chosen."""
    stride = max(1, sum(len(lot.nodes) for lot in every) // count)
    return [
        NodeBatch(lot.blocks, lot.nodes[::stride], tuple(rows[::stride] for rows in lot.steps))
        for lot in every
    ]


def filter_of(scenario: Scenario, blocks: int, efficacy: float = 1.0) -> BayesFilter:
    """Return the filter for nodes of this size."""
    sized = replace(scenario, blocks=blocks)
    return BayesFilter(sized, modes_of(sized), reduced_counts(blocks, WIDENING), efficacy)


def passed_through(
    bayes: BayesFilter,
    log: Log,
    lot: NodeBatch,
    watcher: Watcher = lambda *_: None,
    *,
    blur: float = 0.0,
) -> Belief:
    """Return what is believed of the lot's nodes after the last audit of each.

    With a blur, the logarithm of a count is taken to have this standard error.
    """
    belief = bayes.initial(len(lot.nodes))
    for rows in lot.steps:
        prefix = np.arange(len(rows))
        before = bayes.predict(take(belief, prefix), log.interval[rows])
        after = weighed(bayes, before, log, rows, blur)
        watcher(before, after)
        for name, new in vars(after).items():
            getattr(belief, name)[: len(rows)] = new
    return belief


def weighed(
    bayes: BayesFilter, belief: Belief, log: Log, rows: IntArray, blur: float = 0.0
) -> Belief:
    """Return the belief after the audits in these rows, and the damage counted after them."""
    sampled, found = log.sampled[rows], log.found[rows]
    after = bayes.update(belief, sampled, log.failed[rows])
    counted = np.flatnonzero(found > 0)
    if not len(counted):
        return after
    chance = bayes.efficacy * bayes.scenario.detection_probability(found[counted], sampled[counted])
    counts, exactly = belief.counts[counted], found[counted]
    density = (
        _blurred(bayes.cells, counts, exactly, blur)
        if blur > 0
        else _density(bayes.cells, counts, exactly)
    )
    met = (density + STRAY / bayes.scenario.blocks) * chance[:, np.newaxis]
    log_joint = belief.log_weights[counted] + np.log(met)
    log_evidence = np.logaddexp.reduce(log_joint, axis=1)
    after.log_weights[counted] = log_joint - log_evidence[:, np.newaxis]
    after.log_likelihood[counted] = belief.log_likelihood[counted] + log_evidence
    return after


def between(cells: IntArray, counts: IntArray) -> tuple[IntArray, FloatArray]:
    """Return the cell at or below each count, and which share of it belongs to the next one."""
    lower = np.clip(np.searchsorted(cells, counts, side="right") - 1, 0, len(cells) - 2)
    return lower, (counts - cells[lower]) / (cells[lower + 1] - cells[lower])


def _density(cells: IntArray, counts: FloatArray, found: IntArray) -> FloatArray:
    """Return the probability of exactly so many damaged blocks: (batch, modes).

    A cell stands for the counts around it, the nearer the more.
    """
    gaps = np.diff(cells)
    width = 0.5 * (np.append(gaps, 1) + np.insert(gaps, 0, 1))
    lower, share = between(cells, found)
    node = np.arange(len(found))
    below = counts[node, :, lower] * ((1 - share) / width[lower])[:, np.newaxis]
    above = counts[node, :, lower + 1] * (share / width[lower + 1])[:, np.newaxis]
    return np.asarray(below + above, np.float64)


def _blurred(cells: IntArray, counts: FloatArray, found: IntArray, blur: float) -> FloatArray:
    """Return the density of the logarithm of a count that is only roughly known."""
    off = np.log(found)[:, np.newaxis] - np.log(np.maximum(cells, 0.5))
    kernel = np.exp(-0.5 * (off / blur) ** 2)
    return np.asarray(np.einsum("bmc,bc->bm", counts, kernel), np.float64)
