"""How likely the outcomes of audits can be at most if nodes have certain rates.

A node has at least the damage that grew since its last audit. Damage makes a pass less likely, and
a count below it as well. So a node that was intact before the interval gives the bound, and
hypotheses that predict far more damage than was seen are dropped before they are computed.
"""

import numpy as np

from holdfast.inference.forward_filter import OUTLIER, NodeBatch, blurred_kernel
from holdfast.inference.growth_bands import SizeTable
from holdfast.inference.hypotheses import Rates
from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.policy.filter import MIN_LIKELIHOOD


def bounds_ahead(
    table: SizeTable, rates: Rates, log: Log, batch: NodeBatch, blur: float
) -> FloatArray:
    """Return the bound of the log likelihood from each step on: (rates, steps, nodes)."""
    steps = len(batch.steps)
    ahead = np.zeros((len(rates), steps, len(batch.nodes)))
    if steps:
        audits = np.concatenate(batch.steps)
        step = np.repeat(np.arange(steps), [len(rows) for rows in batch.steps])
        node = np.concatenate([np.arange(len(rows)) for rows in batch.steps])
        ahead[:, step, node] = bound_audits(table, rates, log, audits, blur)
        np.cumsum(ahead[:, ::-1], axis=1, out=ahead[:, ::-1])
    return ahead


def bound_audits(
    table: SizeTable, rates: Rates, log: Log, audits: IntArray, blur: float
) -> FloatArray:
    """Return the largest log likelihood of each audit: (rates, audits)."""
    failed, damaged = log.failed[audits], log.damaged[audits]
    passed, counted = np.flatnonzero(~failed), np.flatnonzero(damaged > 0)
    intervals, interval_of = np.unique(log.interval[audits], return_inverse=True)
    log_survival = np.maximum(rates.log_survival, rates.log_bold_survival)
    loss = -np.expm1(np.outer(log_survival, intervals))
    grown = table.growth_from_intact(loss.ravel()).reshape(*loss.shape, -1)
    width = grown.shape[2]
    bounds = np.ones((len(rates), len(audits)))
    if len(passed):
        sizes, size_of = np.unique(log.sampled[audits[passed]], return_inverse=True)
        detection = np.stack([table.detection(size)[:width] for size in sizes.tolist()], axis=1)
        passing = 1.0 - rates.efficacy[:, np.newaxis, np.newaxis] * detection
        passing = grown @ np.maximum(passing, MIN_LIKELIHOOD)
        bounds[:, passed] = passing[:, interval_of[passed], size_of]
    if len(counted):
        counts, count_of = np.unique(damaged[counted], return_inverse=True)
        kernel = _majorant(table.cells[:width], counts, blur)
        bounds[:, counted] = OUTLIER + (grown @ kernel.T)[:, interval_of[counted], count_of]
    return np.asarray(np.log(np.clip(bounds, MIN_LIKELIHOOD, 1.0)), np.float64)


def _majorant(cells: IntArray, counts: IntArray, blur: float) -> FloatArray:
    """Return, for each cell, the largest density of the count in it or in any higher one."""
    if blur:
        kernel = blurred_kernel(cells, counts, blur)
        return np.where(cells <= counts[:, np.newaxis], 1.0, kernel)
    upper = np.searchsorted(cells, counts)  # the cell at the count, or the next one above it
    return np.asarray(np.arange(len(cells)) <= upper[:, np.newaxis], np.float64)
