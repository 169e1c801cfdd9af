"""Growth matrices for inference: only the rows that a belief reaches, only the columns they reach.

A fit needs thousands of these matrices, each for another rate. Those of one size share a table.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.scenario import Scenario
from holdfast.policy.count_bins import reduced_counts

# Cells that widen by 4 % as the policies' do would add 18 % to the variance of a count of 250
# blocks; these add 4 %.
WIDENING = 1.02
# Cells with less probability than this are not advanced.
REACHED = 1e-14
# A binomial's mass beyond this many standard deviations and this many more blocks is below 1e-14.
REACH_SD = 8.0
REACH_BLOCKS = 16
# Where cells are wide, every k-th count stands for its neighbours. At least this many lie within a
# cell, and within a standard deviation.
POINTS_PER_CELL = 4
POINTS_PER_SD = 2
ROW_STEP = 16  # rows are added in steps of this many
ROWS_AT_ONCE = 128  # of matrices that are computed together
MAX_CACHE_BYTES = 64 << 20  # of one table
MAX_FIRST_ROWS = 4096
MAX_LOOKUP_BLOCKS = 1 << 20  # up to here, tables have an entry for every count
_EXACT_BELOW = 16

Request = tuple[float, int, int]  # a probability of loss, and rows from the first up to the second


@dataclass(frozen=True, eq=False)
class Band:
    """Rows of a growth matrix, from `row`, with columns from `column`; all others are 0."""

    row: int
    column: int
    matrix: FloatArray

    @property
    def end(self) -> int:
        return self.row + len(self.matrix)

    @property
    def columns(self) -> slice:
        return slice(self.column, self.column + self.matrix.shape[1])

    def rows(self, first: int, end: int) -> FloatArray:
        return self.matrix[first - self.row : end - self.row]

    def arriving(self, cells: IntArray, first: int, end: int) -> FloatArray:
        """Return the probability to arrive in these cells, from each of the rows."""
        inside = (cells >= self.column) & (cells < self.columns.stop)
        columns = np.where(inside, cells - self.column, 0)
        return np.asarray(self.rows(first, end).T[columns] * inside[:, np.newaxis], np.float64)

    def joined(self, below: "Band") -> "Band":
        """Return the rows of both, where the other's begin at the end of these."""
        column = min(self.column, below.column)
        width = max(self.columns.stop, below.columns.stop) - column
        matrix = np.zeros((len(self.matrix) + len(below.matrix), width))
        for band, first in ((self, 0), (below, len(self.matrix))):
            start = band.column - column
            rows, columns = band.matrix.shape
            matrix[first : first + rows, start : start + columns] = band.matrix
        return Band(self.row, column, matrix)


class SizeTable:
    """What filters of one size share, whatever their rates: cells, growth and detection."""

    def __init__(self, cells: IntArray, detection: Callable[[IntArray, int], FloatArray]) -> None:
        self.cells = cells
        self._gaps = np.diff(cells, append=cells[-1] + 1)
        self._detection = detection
        self._detections: dict[int, FloatArray] = {}
        self._bands: OrderedDict[float, Band] = OrderedDict()
        self._first_rows: dict[float, FloatArray] = {}
        self._bytes = 0
        small = self.blocks <= MAX_LOOKUP_BLOCKS
        self._cell_of = np.repeat(np.arange(len(cells)), self._gaps) if small else None

    @property
    def blocks(self) -> int:
        return int(self.cells[-1])

    def detection(self, sampled: int) -> FloatArray:
        """Return the probability that a sample contains damage, for each cell."""
        if sampled not in self._detections:
            self._detections[sampled] = self._detection(self.cells, sampled)
        return self._detections[sampled]

    def growth(self, loss_probability: float, first: int, end: int) -> Band:
        """Return a band with at least these rows."""
        return self.growth_many([(loss_probability, first, end)])[0]

    def growth_many(self, requests: Sequence[Request]) -> list[Band]:
        """Return a band with at least the rows of each request; no probability comes twice."""
        missing: list[Request] = []
        for loss_probability, wanted, wanted_end in requests:
            first = wanted - wanted % ROW_STEP
            end = min(wanted_end + -wanted_end % ROW_STEP, len(self.cells))
            band = self._bands.get(loss_probability)
            if band is None:
                missing.append((loss_probability, first, end))
                continue
            self._bands.move_to_end(loss_probability)
            if first < band.row:
                missing.append((loss_probability, first, band.row))
            if end > band.end:
                missing.append((loss_probability, band.end, end))
        for loss_probability, band in self._compute(missing):
            self._add(loss_probability, band)
        bands = [self._bands[loss_probability] for loss_probability, _, _ in requests]
        while self._bytes > MAX_CACHE_BYTES and len(self._bands) > 1:
            self._bytes -= self._bands.popitem(last=False)[1].matrix.nbytes
        return bands

    def growth_from_intact(self, loss_probabilities: FloatArray) -> FloatArray:
        """Return the distribution over the first cells of nodes that were intact.

        It has a row for each probability, and as many cells as any of them reaches.
        """
        keys = loss_probabilities.tolist()
        if len(self._first_rows) > MAX_FIRST_ROWS:
            self._first_rows.clear()
        missing = [key for key in dict.fromkeys(keys) if key not in self._first_rows]
        if missing:
            band = self._rows(np.zeros(len(missing), np.int64), np.array(missing))
            matrix = np.pad(band.matrix, ((0, 0), (band.column, 0)))
            for key, row in zip(missing, matrix, strict=True):
                self._first_rows[key] = row[: int(np.flatnonzero(row)[-1]) + 1].copy()
        rows = [self._first_rows[key] for key in keys]
        grown = np.zeros((len(rows), max((len(row) for row in rows), default=1)))
        for number, row in enumerate(rows):
            grown[number, : len(row)] = row
        return grown

    def clear(self) -> None:
        """Forget growth, which takes much memory."""
        self._bands.clear()
        self._first_rows.clear()
        self._bytes = 0

    def _add(self, loss_probability: float, band: Band) -> None:
        """Keep these rows, joined with those that are there."""
        there = self._bands.get(loss_probability)
        if there is not None:
            self._bytes -= there.matrix.nbytes
            band = there.joined(band) if band.row == there.end else band.joined(there)
        self._bands[loss_probability] = band
        self._bytes += band.matrix.nbytes

    def growth_rows(self, loss_probability: float, first: int, end: int) -> Band:
        """Return rows of the transition between cells, as `count_bins.growth` defines it."""
        ((_, band),) = self._compute([(loss_probability, first, end)])
        return band

    def _compute(self, requests: Sequence[Request]) -> Iterator[tuple[float, Band]]:
        """Yield the rows of each request. Neighbours in probability are computed together."""
        chunk: list[Request] = []
        rows = 0
        for request in sorted(requests):
            chunk.append(request)
            rows += request[2] - request[1]
            if rows >= ROWS_AT_ONCE:
                yield from self._compute_together(chunk)
                chunk, rows = [], 0
        if chunk:
            yield from self._compute_together(chunk)

    def _compute_together(self, requests: Sequence[Request]) -> Iterator[tuple[float, Band]]:
        sizes = [end - first for _, first, end in requests]
        counts = np.concatenate([self.cells[first:end] for _, first, end in requests])
        losses = np.repeat([loss_probability for loss_probability, _, _ in requests], sizes)
        together, start = self._rows(counts, losses), 0
        for (loss_probability, first, _), size in zip(requests, sizes, strict=True):
            rows = together.matrix[start : start + size]
            start += size
            used = np.flatnonzero(rows.any(axis=0))
            column, stop = int(used[0]), int(used[-1]) + 1
            matrix = rows[:, column:stop].copy()
            yield loss_probability, Band(first, together.column + column, matrix)

    def _rows(self, counts: IntArray, loss_probabilities: FloatArray) -> Band:
        """Return the transition from each count, with a probability of its own."""
        new, mass = self._binomial_points(counts, loss_probabilities)
        reached = counts[:, np.newaxis] + new
        lower = np.minimum(self._cell(reached), max(len(self.cells) - 2, 0))
        above = mass * ((reached - self.cells[lower]) / self._gaps[lower])
        column = int(lower.min())
        width = int(lower.max()) - column + 2
        index = (np.arange(len(counts))[:, np.newaxis] * width + (lower - column)).ravel()
        matrix = np.zeros(len(counts) * width)
        matrix += np.bincount(index, (mass - above).ravel(), len(matrix))
        matrix += np.bincount(index + 1, above.ravel(), len(matrix))
        inside = min(width, len(self.cells) - column)
        return Band(0, column, matrix.reshape(len(counts), width)[:, :inside])

    def _cell(self, counts: IntArray) -> IntArray:
        """Return the last cell at or below each count."""
        if self._cell_of is not None:
            return self._cell_of[counts]
        return np.searchsorted(self.cells, counts, side="right") - 1

    def _binomial_points(
        self, counts: IntArray, probability: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """Return how much damage may be new after each count, and the probability of each.

        Where cells are wide, only every k-th number is returned: mean and spread stay the same.
        """
        trials = self.blocks - counts
        mean = trials * probability
        spread = np.sqrt(mean * (1 - probability))
        reach = REACH_SD * spread + REACH_BLOCKS
        lowest = np.maximum(0, mean - reach).astype(np.int64)
        highest = np.minimum(trials, (mean + reach).astype(np.int64) + 1)
        gap = self._gaps[self._cell(counts + lowest)] // POINTS_PER_CELL
        stride = np.maximum(1, np.minimum(gap, (spread / POINTS_PER_SD).astype(np.int64)))
        # Points that don't move with the probability keep the likelihood smooth in it.
        start = lowest - lowest % stride
        points = int(((highest - start) // stride).max(initial=0)) + 1
        new = start[:, np.newaxis] + stride[:, np.newaxis] * np.arange(points)
        outside = new > highest[:, np.newaxis]
        new = np.minimum(new, trials[:, np.newaxis])
        # What is certain has its point at `highest` or 0, and all others are impossible.
        inside = np.clip(probability, 1e-300, 1 - 1e-16)[:, np.newaxis]
        log_mass = self._log_binomial(new, trials[:, np.newaxis], inside)
        log_mass[outside] = -np.inf
        log_mass -= log_mass.max(axis=1, keepdims=True)
        mass = np.exp(log_mass, out=log_mass)
        mass /= mass.sum(axis=1, keepdims=True)
        return new, mass

    def _log_binomial(self, k: IntArray, trials: IntArray, probability: FloatArray) -> FloatArray:
        """Return the logarithm of the binomial probability, up to a constant for each row."""
        if self.blocks <= MAX_LOOKUP_BLOCKS:
            log_factorial = _log_factorials(1 << self.blocks.bit_length())
            log_mass = k * (np.log(probability) - np.log1p(-probability))
            log_mass -= log_factorial[k]
            log_mass -= log_factorial[trials - k]
            return np.asarray(log_mass, np.float64)
        return _log_binomial(k, trials, probability)


def table_of(scenario: Scenario, blocks: int) -> SizeTable:
    """Return the table that filters of this size share."""
    sized = replace(scenario, blocks=blocks)
    return SizeTable(reduced_counts(blocks, WIDENING), sized.detection_probability)


def _log_binomial(k: IntArray, trials: IntArray, probability: FloatArray) -> FloatArray:
    """Return the same as a deviation from the mean, so that no large logarithms cancel."""
    rest = trials - k
    mean, others = trials * probability, trials * (1 - probability)
    deviance = k * np.log(np.maximum(k, 1) / np.maximum(mean, 1e-300))
    deviance += rest * np.log(np.maximum(rest, 1) / np.maximum(others, 1e-300))
    return np.asarray(-deviance - _stirling(k) - _stirling(rest), np.float64)


@lru_cache(maxsize=4)
def _log_factorials(end: int) -> FloatArray:
    k = np.arange(end)
    return np.asarray(k * np.log(np.maximum(k, 1)) - k + _stirling(k), np.float64)


def _stirling(k: IntArray) -> FloatArray:
    """Return log k! - (k log k - k)."""
    safe = np.maximum(k, 1)
    inverse = 1.0 / safe
    series = 0.5 * np.log(2 * np.pi * safe)
    series += inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 / 1260))
    return np.where(k < _EXACT_BELOW, _SMALL[np.minimum(k, _EXACT_BELOW - 1)], series)


def _small() -> FloatArray:
    k = np.arange(_EXACT_BELOW)
    log_k = np.log(np.maximum(k, 1))
    return np.asarray(np.cumsum(log_k) - (k * log_k - k), np.float64)


_SMALL = _small()
