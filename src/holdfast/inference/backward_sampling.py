"""Hidden histories drawn from their posterior: filtered forwards, sampled backwards.

A history says how much damage each audit met. So it tells which audits that passed were misses.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.inference.forward_filter import NodeBatch, between, passed_through
from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.policy.filter import BayesFilter, Belief


@dataclass(frozen=True, eq=False)
class Drawn:
    misses: IntArray  # (histories, nodes of the lot)
    belief: Belief  # after the last audit of each node


def draw_histories(
    bayes: BayesFilter, log: Log, lot: NodeBatch, count: int, source: np.random.Generator
) -> Drawn:
    """Return so many histories of the lot's nodes, given all their audits."""
    steps: list[tuple[Belief, Belief]] = []
    belief = passed_through(bayes, log, lot, lambda *both: steps.append(both))
    misses = np.zeros((count, len(lot.nodes)), np.int64)
    # The mode, and the cell of the damage that the later audit met, of the nodes that have one.
    mode, cell = np.empty((2, count, 0), np.int64)
    for step in range(len(steps) - 1, -1, -1):
        before, after = steps[step]
        rows, later = lot.steps[step], mode.shape[1]
        last = _marginal(after, slice(later, None), count, source)
        waited = log.interval[lot.steps[step + 1]] if later else np.empty(0, np.int64)
        earlier = _backwards(bayes, after, waited, mode, cell, source)
        mode, left = (np.concatenate(pair, axis=1) for pair in zip(earlier, last, strict=True))
        failed = log.failed[rows]
        cell = np.where(failed, _met(bayes, before, log, rows, mode, source), left)
        misses[:, : len(rows)] += (cell > 0) & ~failed
    return Drawn(misses, belief)


def pick(weights: FloatArray, source: np.random.Generator) -> IntArray:
    """Return an index into the last axis, drawn in proportion to the weights; 0 if all are 0."""
    heights = np.cumsum(weights, axis=-1)
    aim = source.random(heights.shape[:-1]) * heights[..., -1]
    return np.asarray((heights <= aim[..., np.newaxis]).sum(axis=-1) % weights.shape[-1], np.int64)


def _marginal(
    after: Belief, which: slice, count: int, source: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw mode and damage after their last audit, of these nodes."""
    weights = np.exp(after.log_weights[which])
    mode = pick(np.broadcast_to(weights, (count, *weights.shape)), source)
    counts = after.counts[which]
    return mode, pick(counts[np.arange(len(counts)), mode], source)


def _backwards(
    bayes: BayesFilter,
    after: Belief,
    waited: IntArray,
    mode: IntArray,
    cell: IntArray,
    source: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Draw mode and damage after an audit, given those that the next one met."""
    earlier = np.empty_like(mode), np.empty_like(cell)
    bold = bayes.bold_units(after.quiet[: len(waited)], waited)
    waits = np.stack([waited - bold, bold], axis=1)
    for units, bold_units in np.unique(waits, axis=0).tolist():
        nodes = np.flatnonzero((waits == (units, bold_units)).all(axis=1))
        if bayes.modes.fixed:
            earlier[0][:, nodes] = mode[:, nodes]
            come = np.empty((*mode[:, nodes].shape, len(bayes.cells)))
            for each in range(len(bayes.modes.rate)):
                chosen = mode[:, nodes] == each
                come[chosen] = bayes.growth(each, units, bold_units).T[cell[:, nodes][chosen]]
            come *= after.counts[nodes, mode[:, nodes]]
            earlier[1][:, nodes] = pick(come, source)
        else:
            met = mode[:, nodes] * len(bayes.cells) + cell[:, nodes]
            reached, place = np.unique(met, return_inverse=True)
            into = bayes.power(bold_units, bold=True)[:, reached]
            into = bayes.power(units, bold=False) @ into
            left = np.exp(after.log_weights[nodes])[:, :, np.newaxis] * after.counts[nodes]
            state = pick(into.T[place.reshape(met.shape)] * left.reshape(len(nodes), -1), source)
            earlier[0][:, nodes], earlier[1][:, nodes] = np.divmod(state, len(bayes.cells))
    return earlier


def _met(
    bayes: BayesFilter,
    before: Belief,
    log: Log,
    rows: IntArray,
    mode: IntArray,
    source: np.random.Generator,
) -> IntArray:
    """Draw the damage that each audit met, if it failed: what was counted, where that was done."""
    cell = np.zeros_like(mode)
    counted = log.found[rows] > 0
    lower, share = between(bayes.cells, np.maximum(log.found[rows], 0))
    cell[:, counted] = (lower + (source.random(mode.shape) < share))[:, counted]
    unknown = log.failed[rows] & ~counted
    for size in np.unique(log.sampled[rows][unknown]).tolist():
        nodes = np.flatnonzero(unknown & (log.sampled[rows] == size))
        caught = before.counts[nodes, mode[:, nodes]] * (1.0 - bayes.passing(size))
        cell[:, nodes] = pick(caught, source)
    return cell
