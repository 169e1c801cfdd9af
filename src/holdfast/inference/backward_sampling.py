"""Hidden histories sampled from their posterior: filtered forwards, sampled backwards.

A history says how much damage was present at each audit, so which passed audits were misses.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.inference.banded_filter import (
    BandedFilter,
    groups,
    intact_nodes,
    reached_cells,
)
from holdfast.inference.forward_filter import NodeBatch, interpolate, run_filter
from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.policy.filter import Belief


@dataclass(frozen=True, eq=False)
class Histories:
    misses: IntArray  # (histories, nodes of the batch)
    belief: Belief  # after the last audit of each node


def sample_histories(
    bayes: BandedFilter, log: Log, batch: NodeBatch, count: int, rng: np.random.Generator
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
    return Histories(misses, belief)


def sample_index(weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return an index into the last axis, sampled by the weights; 0 if all are 0."""
    cumulative = np.cumsum(weights, axis=-1)
    thresholds = rng.random(cumulative.shape[:-1]) * cumulative[..., -1]
    return np.asarray(
        (cumulative <= thresholds[..., np.newaxis]).sum(axis=-1) % weights.shape[-1], np.int64
    )


def _sample_last(
    after: Belief, which: slice, count: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Sample mode and damage of these nodes after their last audit."""
    weights = np.exp(after.log_weights[which])
    mode = sample_index(np.broadcast_to(weights, (count, *weights.shape)), rng)
    counts = after.counts[which]
    return mode, sample_index(counts[np.arange(len(counts)), mode], rng)


def _sample_backwards(
    bayes: BandedFilter,
    after: Belief,
    waits_before: IntArray,
    mode: IntArray,
    cell: IntArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Sample mode and damage after an audit, given those at the next one."""
    earlier_mode, earlier_cell = np.empty_like(mode), np.empty_like(cell)
    bold = bayes.bold_units(after.quiet[: len(waits_before)], waits_before)
    uncertain = np.arange(len(waits_before))
    if bayes.modes.fixed:  # nodes that were intact then have nothing to sample
        earlier_mode[:], earlier_cell[:] = mode, 0
        uncertain = np.flatnonzero(~intact_nodes(after)[: len(waits_before)])
    for units, bold_units, nodes in groups(waits_before - bold, bold, uncertain):
        here, there = mode[:, nodes], cell[:, nodes]
        if bayes.modes.fixed:
            weights = np.zeros((*here.shape, len(bayes.cells)))
            for fixed_mode in range(len(bayes.modes.rate)):
                chosen = here == fixed_mode
                before = after.counts[nodes, fixed_mode]
                first, end = reached_cells(before)
                band = bayes.band(fixed_mode, units, bold_units, first, end)
                arriving = band.arriving(there[chosen], first, end)
                weights[chosen, first:end] = arriving * before[np.nonzero(chosen)[1], first:end]
            earlier_cell[:, nodes] = sample_index(weights, rng)
        else:
            states, inverse = np.unique(here * len(bayes.cells) + there, return_inverse=True)
            into = bayes.arrivals(states, units, bold_units).reshape(len(states), -1)
            left = np.exp(after.log_weights[nodes])[:, :, np.newaxis] * after.counts[nodes]
            state = sample_index(
                into[inverse.reshape(here.shape)] * left.reshape(len(nodes), -1), rng
            )
            earlier_mode[:, nodes], earlier_cell[:, nodes] = np.divmod(state, len(bayes.cells))
    return earlier_mode, earlier_cell


def _sample_damage(
    bayes: BandedFilter,
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
