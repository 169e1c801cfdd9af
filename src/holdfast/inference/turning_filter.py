"""The Bayes filter of nodes whose mode may turn.

It gives what `BayesFilter` gives, and computes only what the beliefs reach.
"""

from dataclasses import dataclass, replace

import numpy as np

from holdfast.inference.growth_bands import REACHED, Band, SizeTable
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.scenario import Scenario
from holdfast.policy.filter import MIN_LIKELIHOOD, BayesFilter, Belief
from holdfast.policy.hidden_states import modes_of


@dataclass(frozen=True, eq=False, kw_only=True)
class TurningFilter(BayesFilter):
    table: SizeTable

    def predict(self, belief: Belief, intervals: IntArray) -> Belief:
        """Return the belief after the intervals, just before the audits."""
        bold = self.bold_units(belief.quiet, intervals)
        turned = self._turn(belief, intervals - bold, bold)
        return replace(turned, quiet=belief.quiet + intervals)

    def passing(self, sampled: int) -> FloatArray:
        """Return the probability that an audit of this many blocks passes, for each cell."""
        return np.maximum(1.0 - self.efficacy * self.table.detection(sampled), MIN_LIKELIHOOD)

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
            end = last_cell(turned[:, mode])
            grown[:, mode, band.columns] = turned[:, mode, :end] @ band.matrix[:end]
        return np.asarray(grown, np.float64)

    def _unit_band(self, mode: int, *, bold: bool) -> Band:
        rates = self.modes.bold_rate if bold else self.modes.rate
        return self.table.growth(float(rates[mode]), 0, len(self.cells))


def filter_of(
    scenario: Scenario, blocks: int, table: SizeTable, efficacy: float = 1.0
) -> TurningFilter:
    """Return the filter for nodes of this size."""
    sized = replace(scenario, blocks=blocks)
    return TurningFilter(sized, modes_of(sized), table.cells, efficacy, table=table)


def last_cell(counts: FloatArray) -> int:
    """Return the cell after the last one that any node is in."""
    return int(np.flatnonzero((counts > REACHED).any(axis=0))[-1]) + 1
