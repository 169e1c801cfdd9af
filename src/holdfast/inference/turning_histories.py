"""Hidden histories of nodes whose mode may turn, in one world."""

from collections.abc import Iterator

import numpy as np

from holdfast.inference.forward_filter import NodeBatch, interpolate, run_filter
from holdfast.inference.log import Log
from holdfast.inference.sampling import Histories, sample_index
from holdfast.inference.turning_filter import TurningFilter
from holdfast.model.arrays import IntArray
from holdfast.policy.filter import Belief


def sample_turning_histories(
    bayes: TurningFilter, log: Log, batch: NodeBatch, count: int, rng: np.random.Generator
) -> Histories:
    """Return `count` histories of the batch's nodes, given all their audits."""
    steps: list[tuple[Belief, Belief]] = []
    belief = run_filter(bayes, log, batch, lambda *both: steps.append(both))
    misses = np.zeros((count, len(batch.nodes)), np.int64)
    # The mode and the damage cell at the later audit, for nodes that have a later one.
    mode, cell = np.empty((2, count, 0), np.int64)
    for step in range(len(steps) - 1, -1, -1):
        before, after = steps[step]
        rows, later = batch.steps[step], mode.shape[1]
        last = _sample_last(after, slice(later, None), count, rng)
        waits_before = log.interval[batch.steps[step + 1]] if later else np.empty(0, np.int64)
        earlier = _sample_backwards(bayes, after, waits_before, mode, cell, rng)
        mode, left = (np.concatenate(pair, axis=1) for pair in zip(earlier, last, strict=True))
        failed = log.failed[rows]
        cell = np.where(failed, _sample_damage(bayes, before, log, rows, mode, rng), left)
        misses[:, : len(rows)] += (cell > 0) & ~failed
    now = bayes.predict(belief, log.elapsed[batch.nodes])
    return Histories(misses, bayes.count(now))


def _sample_last(
    after: Belief, which: slice, count: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Sample mode and damage of these nodes after their last audit."""
    weights = np.exp(after.log_weights[which])
    mode = sample_index(np.broadcast_to(weights, (count, *weights.shape)), rng)
    counts = after.counts[which]
    return mode, sample_index(counts[np.arange(len(counts)), mode], rng)


def _sample_backwards(
    bayes: TurningFilter,
    after: Belief,
    waits_before: IntArray,
    mode: IntArray,
    cell: IntArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Sample mode and damage after an audit, given those at the next one."""
    earlier_mode, earlier_cell = np.empty_like(mode), np.empty_like(cell)
    bold = bayes.bold_units(after.quiet[: len(waits_before)], waits_before)
    for units, bold_units, nodes in _groups(waits_before - bold, bold):
        here, there = mode[:, nodes], cell[:, nodes]
        states, inverse = np.unique(here * len(bayes.cells) + there, return_inverse=True)
        into = bayes.arrivals(states, units, bold_units).reshape(len(states), -1)
        left = np.exp(after.log_weights[nodes])[:, :, np.newaxis] * after.counts[nodes]
        state = sample_index(into[inverse.reshape(here.shape)] * left.reshape(len(nodes), -1), rng)
        earlier_mode[:, nodes], earlier_cell[:, nodes] = np.divmod(state, len(bayes.cells))
    return earlier_mode, earlier_cell


def _sample_damage(
    bayes: TurningFilter,
    before: Belief,
    log: Log,
    rows: IntArray,
    mode: IntArray,
    rng: np.random.Generator,
) -> IntArray:
    """Sample the damage at each failed audit; counted damage is taken as it is."""
    cell = np.zeros_like(mode)
    counted = log.damaged[rows] > 0
    lower, share = interpolate(bayes.cells, np.maximum(log.damaged[rows], 0))
    cell[:, counted] = (lower + (rng.random(mode.shape) < share))[:, counted]
    unknown = log.failed[rows] & ~counted
    for size in np.unique(log.sampled[rows][unknown]).tolist():
        nodes = np.flatnonzero(unknown & (log.sampled[rows] == size))
        weights = before.counts[nodes, mode[:, nodes]] * (1.0 - bayes.passing(size))
        cell[:, nodes] = sample_index(weights, rng)
    return cell


def _groups(units: IntArray, bold_units: IntArray) -> Iterator[tuple[int, int, IntArray]]:
    """Yield the nodes that wait equally long, with their units and bold units."""
    waits = np.stack([units, bold_units], axis=1)
    for wait in np.unique(waits, axis=0):
        yield (*wait.tolist(), np.flatnonzero((waits == wait).all(axis=1)))
