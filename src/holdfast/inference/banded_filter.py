"""The Bayes filter as inference runs it: over logs, at many rates, for nodes of one size.

It gives what `BayesFilter` gives, and computes only what the beliefs reach.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from holdfast.inference.growth_bands import Band, SizeTable
from holdfast.model.arrays import BoolArray, FloatArray, IntArray
from holdfast.model.scenario import Scenario
from holdfast.policy.count_bins import reduced_counts
from holdfast.policy.filter import MIN_LIKELIHOOD, BayesFilter, Belief
from holdfast.policy.hidden_states import Modes, modes_of

# Cells that widen by 4 % as the policies' do would add 18 % to the variance of a count of 250
# blocks; these add 4 %.
WIDENING = 1.02
# Cells with less probability than this are not advanced.
REACHED = 1e-14


@dataclass(frozen=True, eq=False, kw_only=True)
class BandedFilter(BayesFilter):
    table: SizeTable

    def predict(self, belief: Belief, intervals: IntArray) -> Belief:
        """Return the belief after the intervals, just before the audits."""
        quiet, bold = belief.quiet + intervals, self.bold_units(belief.quiet, intervals)
        if not self.modes.fixed:
            return replace(self._turn(belief, intervals - bold, bold), quiet=quiet)
        counts = np.zeros_like(belief.counts)
        intact = intact_nodes(belief)
        self._grow_intact(counts, np.flatnonzero(intact), intervals - bold, bold)
        for units, bold_units, nodes in groups(intervals - bold, bold, np.flatnonzero(~intact)):
            for mode in range(len(self.modes.rate)):
                before = belief.counts[nodes, mode]
                first, end = reached_cells(before)
                band = self.band(mode, units, bold_units, first, end)
                grown = before[:, first:end] @ band.rows(first, end)
                counts[nodes, mode, band.columns] = grown
        return replace(belief, counts=counts, quiet=quiet)

    def band(self, mode: int, units: int, bold_units: int, first: int, end: int) -> Band:
        """Return how the counts of nodes that keep this mode grow, from these cells."""
        log_survival = units * _log_survival(self.modes.rate[mode])
        log_survival += bold_units * _log_survival(self.modes.bold_rate[mode])
        return self.table.growth(-math.expm1(log_survival), first, end)

    def _grow_intact(
        self, counts: FloatArray, nodes: IntArray, units: IntArray, bold_units: IntArray
    ) -> None:
        """Write the counts of nodes that were intact: they have a single cell to grow from."""
        if len(nodes):
            for mode in range(len(self.modes.rate)):
                log_survival = units[nodes] * _log_survival(self.modes.rate[mode])
                log_survival += bold_units[nodes] * _log_survival(self.modes.bold_rate[mode])
                counts[nodes, mode] = self.table.growth_from_intact(-np.expm1(log_survival))

    def passing(self, sampled: int) -> FloatArray:
        """Return the probability that an audit of this many blocks passes, for each cell."""
        return np.maximum(1.0 - self.efficacy * self.table.detection(sampled), MIN_LIKELIHOOD)

    def by_mode(self) -> Iterator[tuple[tuple[float, float], Self]]:
        """Yield a filter of nodes that are in one mode for certain, with its rates."""
        for rate, bold_rate, malicious in zip(
            self.modes.rate, self.modes.bold_rate, self.modes.malicious, strict=True
        ):
            certain = Modes(
                malicious=np.array([malicious]),
                rate=np.array([rate]),
                bold_rate=np.array([bold_rate]),
                prior=np.ones(1),
                turning=np.ones((1, 1)),
                fixed=True,
            )
            yield (float(rate), float(bold_rate)), replace(self, modes=certain)

    def arrivals(self, states: IntArray, units: int, bold_units: int) -> FloatArray:
        """Return the probability to arrive in these states, from any: (states, modes, cells).

        A state is a mode and a cell, flattened. Modes turn.
        """
        mode_of, cell_of = np.divmod(states, len(self.cells))
        into = np.zeros((len(states), len(self.modes.rate), len(self.cells)))
        into[np.arange(len(states)), mode_of, cell_of] = 1.0
        for bold in [True] * bold_units + [False] * units:
            from_cells = np.empty_like(into)
            for mode in range(into.shape[1]):
                band = self._unit_band(mode, bold=bold)
                from_cells[:, mode] = into[:, mode, band.columns] @ band.matrix.T
            into[:] = np.einsum("ij,sjc->sic", self.modes.turning, from_cells)
        return into

    def _turn(self, belief: Belief, units: IntArray, bold_units: IntArray) -> Belief:
        """Return the belief after `units` in which modes may change, advanced one by one."""
        joint = np.exp(belief.log_weights)[:, :, np.newaxis] * belief.counts
        for bold, waits in ((False, units), (True, bold_units)):
            for unit in range(int(waits.max(initial=0))):
                nodes = np.flatnonzero(waits > unit)
                joint[nodes] = self._turn_once(joint[nodes], bold=bold)
        weights = np.maximum(joint.sum(axis=2), 1e-300)
        counts = joint / weights[:, :, np.newaxis]
        return replace(belief, counts=counts, log_weights=np.log(weights))

    def _turn_once(self, joint: FloatArray, *, bold: bool) -> FloatArray:
        # A node turns first and corrupts at its new rate within the same unit.
        turned = np.einsum("bic,ij->bjc", joint, self.modes.turning)
        grown = np.zeros_like(turned)
        for mode in range(turned.shape[1]):
            band = self._unit_band(mode, bold=bold)
            _, end = reached_cells(turned[:, mode])
            grown[:, mode, band.columns] = turned[:, mode, :end] @ band.matrix[:end]
        return np.asarray(grown, np.float64)

    def _unit_band(self, mode: int, *, bold: bool) -> Band:
        return self.band(mode, 1 - bold, int(bold), 0, len(self.cells))


def table_of(scenario: Scenario, blocks: int) -> SizeTable:
    """Return the table that filters of this size share."""
    sized = replace(scenario, blocks=blocks)
    return SizeTable(reduced_counts(blocks, WIDENING), sized.detection_probability)


def filter_of(
    scenario: Scenario, blocks: int, efficacy: float = 1.0, table: SizeTable | None = None
) -> BandedFilter:
    """Return the filter for nodes of this size."""
    sized = replace(scenario, blocks=blocks)
    table = table_of(scenario, blocks) if table is None else table
    return BandedFilter(sized, modes_of(sized), table.cells, efficacy, table=table)


def _log_survival(rate: float) -> float:
    return math.log1p(-min(rate, 1 - 1e-16))


def reached_cells(counts: FloatArray) -> tuple[int, int]:
    """Return the first cell that any node is in, and the one after the last."""
    cells = np.flatnonzero((counts > REACHED).any(axis=0))
    return int(cells[0]), int(cells[-1]) + 1


def intact_nodes(belief: Belief) -> BoolArray:
    """Return which nodes are certainly intact: new ones, and those just repaired."""
    return np.asarray(np.all(belief.counts[:, :, 0] == 1.0, axis=1), np.bool_)


def groups(
    units: IntArray, bold_units: IntArray, nodes: IntArray
) -> Iterator[tuple[int, int, IntArray]]:
    """Yield those of the nodes that wait equally long, with their units and bold units."""
    if not len(nodes):
        return
    radix = int(bold_units.max()) + 1
    codes = (units * radix + bold_units)[nodes]
    order = np.argsort(codes, kind="stable")
    values, starts = np.unique(codes[order], return_index=True)
    for code, same in zip(values.tolist(), np.split(nodes[order], starts[1:]), strict=True):
        yield (*divmod(code, radix), same)
