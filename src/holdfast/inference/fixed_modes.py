"""The filter of nodes that keep their mode: all hypotheses about a batch share one pass over a log.

Those whose likelihood is negligible are dropped.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from holdfast.inference.forward_filter import OUTLIER, NodeBatch, World, count_density
from holdfast.inference.growth_bands import REACHED, Band, SizeTable
from holdfast.inference.hypotheses import Floor, Hypotheses, Rates, State
from holdfast.inference.likelihood_bounds import bounds_ahead
from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray, take
from holdfast.model.scenario import Scenario
from holdfast.policy.filter import MIN_LIKELIHOOD
from holdfast.policy.hidden_states import modes_of

# A mode that is less likely than others by this exponent, 1e-11, is dropped.
NEGLIGIBLE = 25.0

OnStep = Callable[[IntArray, State, State], None]  # which hypotheses, before and after their audits


@dataclass(frozen=True, eq=False)
class ModeRun:
    """The filter in one mode of several worlds."""

    hypotheses: Hypotheses
    which: IntArray  # (worlds, nodes): the hypothesis about each node in each world
    log_prior: FloatArray  # (worlds,): of the mode
    state: State

    @property
    def log_joint(self) -> FloatArray:
        """Return log P(mode, outcomes): (worlds, nodes)."""
        joint = self.log_prior[:, np.newaxis] + self.state.log_likelihood[self.which]
        return np.asarray(joint, np.float64)


@dataclass(frozen=True, eq=False)
class BandGroups:
    """Rows that grow by the same band are neighbours in `order`: from `starts` to `stops`."""

    order: IntArray
    starts: list[int]
    stops: list[int]
    firsts: list[int]  # the first cell that any row of the group is in
    ends: list[int]
    bands: list[Band]

    def __iter__(self) -> Iterator[tuple[slice, slice, FloatArray, slice]]:
        """Yield the places in `order`, the cells before, the matrix, and the cells after."""
        for start, stop, first, end, band in zip(
            self.starts, self.stops, self.firsts, self.ends, self.bands, strict=True
        ):
            yield slice(start, stop), slice(first, end), band.rows(first, end), band.columns


@dataclass(frozen=True, eq=False)
class FixedModeFilter:
    """The filter over the log of a batch. With a blur, the logarithm of counts has that error."""

    scenario: Scenario
    log: Log
    batch: NodeBatch
    table: SizeTable
    blur: float = 0.0

    @cached_property
    def _detection_of_counts(self) -> FloatArray:
        """Return how likely an audit fails with the damage that was counted after it."""
        rows = np.concatenate([np.empty(0, np.int64), *self.batch.steps])
        counted = rows[self.log.damaged[rows] > 0]
        detection = np.ones(self.log.audits)
        detection[counted] = replace(self.scenario, blocks=self.batch.blocks).detection_probability(
            self.log.damaged[counted], self.log.sampled[counted]
        )
        return detection

    def run(
        self,
        hypotheses: Hypotheses,
        floor: Floor | None = None,
        on_step: OnStep = lambda *_: None,
    ) -> State:
        """Return the state of each hypothesis after the last audit of its node."""
        left = np.arange(len(hypotheses.node))
        final = State.initial(len(left), len(self.table.cells))
        state = State.initial(len(left), 1)
        for number, rows in enumerate(self.batch.steps):
            if floor is not None:
                dropped = floor.is_out_of_reach(number, left, hypotheses, state)
                state.log_likelihood[dropped] = -np.inf
            stays = (hypotheses.node < len(rows)) & (state.log_likelihood > -np.inf)
            if not stays.all():
                final.write(left[~stays], take(state, ~stays))
                left, state = left[stays], take(state, stays)
                hypotheses = take(hypotheses, stays)
            if not len(left):
                break
            audits = rows[hypotheses.node]
            before = self.predict(state, hypotheses, self.log.interval[audits])
            state = self._update(before, hypotheses, audits)
            on_step(left, before, state)
        final.write(left, state)
        return final

    def predict(self, state: State, hypotheses: Hypotheses, intervals: IntArray) -> State:
        """Return the state after the intervals, just before the audits."""
        loss = self.loss(state.quiet, hypotheses, intervals)
        intact = state.counts[:, 0] == 1.0
        values, value_of = np.unique(loss[intact], return_inverse=True)
        first_rows = self.table.growth_from_intact(values)
        damaged = np.flatnonzero(~intact)
        if not len(damaged):
            return State(first_rows[value_of], state.quiet + intervals, state.log_likelihood)
        before = state.counts[damaged]
        groups = self.group(loss[damaged], *reached_cells(before))
        before = before[groups.order]
        width = max(first_rows.shape[1], *(band.columns.stop for band in groups.bands))
        counts, grown = np.zeros((len(loss), width)), np.zeros((len(damaged), width))
        for here, cells, matrix, columns in groups:
            grown[here, columns] = before[here, cells] @ matrix
        counts[damaged[groups.order]] = grown
        counts[intact, : first_rows.shape[1]] = first_rows[value_of]
        return State(counts, state.quiet + intervals, state.log_likelihood)

    def loss(self, quiet: IntArray, hypotheses: Hypotheses, intervals: IntArray) -> FloatArray:
        """Return the probability that a block is lost in the intervals."""
        bold = np.clip(quiet + intervals - np.maximum(self.scenario.quiet_after, quiet), 0, None)
        bold *= self.scenario.quiet_factor > 1
        log_survival = (intervals - bold) * hypotheses.log_survival
        log_survival += bold * hypotheses.log_bold_survival
        return np.asarray(-np.expm1(log_survival), np.float64)

    def group(self, loss: FloatArray, first: IntArray, end: IntArray) -> BandGroups:
        """Group rows by the band by which they grow, given the cells that each is in."""
        order = np.argsort(loss, kind="stable")
        values = loss[order]
        starts = np.flatnonzero(np.diff(values, prepend=-1.0))
        firsts = np.minimum.reduceat(first[order], starts).tolist()
        ends = np.maximum.reduceat(end[order], starts).tolist()
        bands = self.table.growth_many(
            list(zip(values[starts].tolist(), firsts, ends, strict=True))
        )
        stops = [*starts[1:].tolist(), len(order)]
        return BandGroups(order, starts.tolist(), stops, firsts, ends, bands)

    def passing(self, sampled: IntArray, efficacy: FloatArray, width: int) -> FloatArray:
        """Return the probability that audits of this many blocks pass, for the first cells."""
        sizes, which = np.unique(sampled, return_inverse=True)
        detection = np.stack([self.table.detection(size)[:width] for size in sizes.tolist()])
        passing = np.take(detection, which, axis=0)
        passing *= -efficacy[:, np.newaxis]
        passing += 1.0
        return np.maximum(passing, MIN_LIKELIHOOD, out=passing)

    def _update(self, before: State, hypotheses: Hypotheses, audits: IntArray) -> State:
        """Return the state after these audits, and the damage counted after them."""
        failed, damaged = self.log.failed[audits], self.log.damaged[audits]
        sampled, width = self.log.sampled[audits], before.counts.shape[1]
        counts = self.passing(sampled, hypotheses.efficacy, width)
        counts *= before.counts
        passed = counts.sum(axis=1)
        likelihood = np.maximum(np.where(failed, 1.0 - passed, passed), MIN_LIKELIHOOD)
        if len(counted := np.flatnonzero(damaged > 0)):
            chances = before.counts[counted, np.newaxis]
            density = count_density(self.table.cells, chances, damaged[counted], self.blur)
            likelihood[counted] = density.squeeze(axis=1) + OUTLIER / self.batch.blocks
            likelihood[counted] *= self._detection_of_counts[audits[counted]]
            likelihood[counted] *= hypotheses.efficacy[counted]
        counts /= passed[:, np.newaxis]
        counts[failed] = 0.0
        counts[failed, 0] = 1.0
        quiet = np.where(failed, 0, before.quiet)
        return State(counts, quiet, before.log_likelihood + np.log(likelihood))


def run_modes(
    bayes: FixedModeFilter,
    worlds: Sequence[World],
    on_step: Callable[[int], OnStep] = lambda _mode: lambda *_: None,
) -> list[ModeRun]:
    """Run the filter in each mode of the worlds, those with the lowest rates first.

    They cost least. What is negligible beside the modes before it is dropped. `on_step` is called
    with the number of modes before, and returns what is called at each step.
    """
    modes = [modes_of(world.scenario) for world in worlds]
    nodes = len(bayes.batch.nodes)
    log_joint = np.full((len(worlds), nodes), -np.inf)
    runs: list[ModeRun] = []
    for mode in np.argsort(modes[0].rate, kind="stable").tolist():
        rates, rates_of = Rates.of(
            (float(one.rate[mode]), float(one.bold_rate[mode]), world.efficacy)
            for one, world in zip(modes, worlds, strict=True)
        )
        hypotheses = Hypotheses.of(rates, nodes)
        which = rates_of[:, np.newaxis] + len(rates) * np.arange(nodes)
        log_prior = np.log(np.maximum([one.prior[mode] for one in modes], 1e-300))
        floor = None
        if runs:
            smallest = np.full(len(hypotheses.node), np.inf)
            np.minimum.at(smallest, which, log_joint - log_prior[:, np.newaxis] - NEGLIGIBLE)
            ahead = bounds_ahead(bayes.table, rates, bayes.log, bayes.batch, bayes.blur)
            floor = Floor(smallest, ahead)
        state = bayes.run(hypotheses, floor, on_step(len(runs)))
        runs.append(ModeRun(hypotheses, which, log_prior, state))
        log_joint = np.logaddexp(log_joint, runs[-1].log_joint)
    return runs


def reached_cells(counts: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first cell that each row is in, and the one after the last."""
    reached = counts > REACHED
    return reached.argmax(axis=1), counts.shape[1] - reached[:, ::-1].argmax(axis=1)
