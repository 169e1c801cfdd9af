"""Distributions of the number of corrupted blocks: the cells they live on, and their growth."""

import numpy as np

from holdfast.model.arrays import FloatArray, IntArray

# Counts up to here have a cell of their own on a reduced grid; above, cells widen in proportion.
FINE = 48
WIDENING = 1.04
# A binomial's mass beyond this many standard deviations (and 40 more blocks, which rare events
# need) is below 1e-18.
REACH = 9.0


def every_count(blocks: int) -> IntArray:
    return np.arange(blocks + 1)


def reduced_counts(blocks: int, widening: float = WIDENING) -> IntArray:
    """Return ascending counts from 0 to `blocks`: all the small ones, then a growing distance."""
    cells = list(range(min(FINE, blocks) + 1))
    while cells[-1] < blocks:
        cells.append(min(blocks, int(np.ceil(cells[-1] * widening))))
    return np.array(cells)


def binomial(trials: int, probability: float) -> tuple[int, FloatArray]:
    """Return the smallest likely outcome, and the probabilities of it and those after it.

    Built from the ratios of neighbours, which needs no factorials of large numbers.
    """
    if trials == 0 or probability <= 0:
        return 0, np.ones(1)
    if probability >= 1:
        return trials, np.ones(1)
    mean = trials * probability
    reach = REACH * np.sqrt(mean * (1 - probability)) + 40
    first, last = max(0, int(mean - reach)), min(trials, int(mean + reach))
    k = np.arange(first, last)
    steps = np.log((trials - k) / (k + 1)) + np.log(probability) - np.log1p(-probability)
    log_mass = np.concatenate([[0.0], np.cumsum(steps)])
    mass = np.exp(log_mass - log_mass.max())
    return first, mass / mass.sum()


def growth(counts: IntArray, lost: float) -> FloatArray:
    """Return the probability of moving from each cell to each, when a block is `lost` so likely.

    Row i is the distribution of c + Binomial(n - c, lost) with c = counts[i]. A count between
    two cells is shared by them so that its mean stays.
    """
    blocks = int(counts[-1])
    matrix = np.zeros((len(counts), len(counts)))
    for row, count in enumerate(counts.tolist()):
        first, mass = binomial(blocks - count, lost)
        reached = np.arange(count + first, count + first + len(mass))
        lower = np.clip(np.searchsorted(counts, reached, side="right") - 1, 0, len(counts) - 2)
        share = (reached - counts[lower]) / (counts[lower + 1] - counts[lower])
        matrix[row] = np.bincount(lower, mass * (1 - share), len(counts))
        matrix[row] += np.bincount(lower + 1, mass * share, len(counts))
    return matrix
