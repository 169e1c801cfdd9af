"""Hidden histories of nodes that keep their mode, in several worlds at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.inference.fixed_modes import (
    FixedModeFilter,
    ModeRun,
    OnStep,
    reached_cells,
    run_modes,
)
from holdfast.inference.forward_filter import World, interpolate
from holdfast.inference.hypotheses import State
from holdfast.inference.sampling import Histories, sample_index
from holdfast.model.arrays import FloatArray, IntArray, take


@dataclass(frozen=True, eq=False)
class Step:
    """The hypotheses that were left at an audit, and their states before and after it."""

    which: IntArray
    before: State
    after: State


def sample_fixed_histories(
    bayes: FixedModeFilter,
    worlds: Sequence[World],
    count: int,
    rng: np.random.Generator,
) -> list[Histories]:
    """Return `count` histories of the batch's nodes in each world, given all their audits."""
    recorded: list[list[Step]] = []

    def record(_mode: int) -> OnStep:
        steps: list[Step] = []
        recorded.append(steps)
        return lambda *parts: steps.append(Step(*parts))

    runs = run_modes(bayes, worlds, record)
    log_joint = np.stack([run.log_joint for run in runs], axis=-1)
    weights = np.exp(log_joint - log_joint.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mode = sample_index(np.broadcast_to(weights, (count, *weights.shape)), rng)
    misses = np.zeros(mode.shape, np.int64)
    damage = np.zeros((*weights.shape[:2], len(bayes.table.cells)))
    for number, (run, steps) in enumerate(zip(runs, recorded, strict=True)):
        damage += weights[:, :, number, np.newaxis] * _now(bayes, run)[run.which]
        history, world, node = np.nonzero(mode == number)
        hypothesis = run.which[world, node]
        order = np.argsort(hypothesis, kind="stable")
        sampler = _Sampler(bayes, run, rng)
        missed = sampler.misses(steps, hypothesis[order])
        misses[history[order], world[order], node[order]] = missed
    return [Histories(misses[:, world], damage[world]) for world in range(len(worlds))]


def _now(bayes: FixedModeFilter, run: ModeRun) -> FloatArray:
    """Return how damage is distributed now under each hypothesis; 0 if it was dropped."""
    left = np.flatnonzero(run.state.log_likelihood > -np.inf)
    hypotheses = take(run.hypotheses, left)
    elapsed = bayes.log.elapsed[bayes.batch.nodes[hypotheses.node]]
    now = bayes.predict(take(run.state, left), hypotheses, elapsed).counts
    counts = np.zeros_like(run.state.counts)
    counts[left, : now.shape[1]] = now
    return counts


@dataclass(frozen=True, eq=False)
class _Sampler:
    """Samples the damage at every audit, backwards, in one mode."""

    bayes: FixedModeFilter
    run: ModeRun
    rng: np.random.Generator

    def misses(self, steps: Sequence[Step], hypothesis: IntArray) -> IntArray:
        """Return the misses in one history of each of these ascending hypotheses."""
        log, batch = self.bayes.log, self.bayes.batch
        node = self.run.hypotheses.node[hypothesis]
        misses = np.zeros(len(hypothesis), np.int64)
        cell = waits = np.empty(0, np.int64)  # of those with a later audit: damage, units until it
        for step, rows in zip(reversed(steps), reversed(batch.steps[: len(steps)]), strict=True):
            here = int(np.searchsorted(node, len(rows)))
            at = np.searchsorted(step.which, hypothesis[:here])
            left = self._left(step, at, hypothesis, waits, cell)
            audits = rows[node[:here]]
            failed = log.failed[audits]
            found = self._found(step, at, hypothesis, audits) if failed.any() else left
            cell, waits = np.where(failed, found, left), log.interval[audits]
            misses[:here] += (cell > 0) & ~failed
        return misses

    def _left(
        self, step: Step, at: IntArray, hypothesis: IntArray, waits: IntArray, cell: IntArray
    ) -> IntArray:
        """Sample the damage after an audit, given the damage at the later one, if there is one."""
        left = np.zeros(len(at), np.int64)
        counts = step.after.counts
        unsure = np.flatnonzero(counts[at, 0] != 1.0)  # the others are intact
        if not len(unsure):
            return left
        first, end = reached_cells(counts)
        which = at[unsure]
        weights = counts[which, : int(end[which].max())]
        later = unsure[: np.searchsorted(unsure, len(cell))]
        if len(later):
            which = at[later]
            loss = self.bayes.loss(
                step.after.quiet[which],
                take(self.run.hypotheses, hypothesis[later]),
                waits[later],
            )
            weights[: len(later)] *= self._arriving(
                loss, first[which], end[which], cell[later], weights.shape[1]
            )
        left[unsure] = sample_index(weights, self.rng)
        return left

    def _arriving(
        self, loss: FloatArray, first: IntArray, end: IntArray, cell: IntArray, width: int
    ) -> FloatArray:
        """Return the probability to arrive in a cell, from every cell that may be left."""
        groups = self.bayes.group(loss, first, end)
        sizes = np.diff([*groups.starts, len(loss)])
        columns = np.repeat([band.column for band in groups.bands], sizes)
        widths = np.repeat([band.matrix.shape[1] for band in groups.bands], sizes)
        column = cell[groups.order] - columns
        inside = (column >= 0) & (column < widths)  # a count may be one that no growth reaches
        column *= inside
        arriving = np.zeros((len(loss), width))
        for here, cells, matrix, _ in groups:
            arriving[here, cells] = matrix[:, column[here]].T
        arriving *= inside[:, np.newaxis]
        back = np.empty_like(groups.order)
        back[groups.order] = np.arange(len(back))
        return arriving[back]

    def _found(self, step: Step, at: IntArray, hypothesis: IntArray, audits: IntArray) -> IntArray:
        """Sample the damage at each failed audit; counted damage is taken as it is."""
        damaged = self.bayes.log.damaged[audits]
        lower, share = interpolate(self.bayes.table.cells, np.maximum(damaged, 0))
        cell = lower + (self.rng.random(len(audits)) < share)
        unknown = np.flatnonzero(self.bayes.log.failed[audits] & (damaged <= 0))
        if len(unknown):
            efficacy = self.run.hypotheses.efficacy[hypothesis[unknown]]
            counts = step.before.counts[at[unknown]]
            sampled = self.bayes.log.sampled[audits[unknown]]
            passing = self.bayes.passing(sampled, efficacy, counts.shape[1])
            weights = counts * (1.0 - passing)
            cell[unknown] = sample_index(weights, self.rng)
        return np.asarray(cell, np.int64)
