"""Distributions of the number of corrupted blocks: their cells, and how they grow."""

import numpy as np

from holdfast.model.arrays import FloatArray, IntArray

# Counts up to here have a cell of their own on a reduced grid; above, cells widen in proportion.
FINE = 48
WIDENING = 1.04
# A binomial's mass beyond this many standard deviations (and 40 more blocks, which rare events
# need) is below 1e-18.
REACH = 9.0
# Rows of a growth matrix at a time; with ten million blocks they take 20 MB.
ROWS_AT_ONCE = 64


def every_count(blocks: int) -> IntArray:
    return np.arange(blocks + 1)


def reduced_counts(blocks: int, widening: float = WIDENING) -> IntArray:
    """Return ascending counts from 0 to `blocks`: all the small ones, then a growing distance."""
    cells = list(range(min(FINE, blocks) + 1))
    while cells[-1] < blocks:
        cells.append(min(blocks, int(np.ceil(cells[-1] * widening))))
    return np.array(cells)


def binomial(trials: IntArray, probability: float) -> tuple[IntArray, FloatArray]:
    """Return the smallest likely outcome of each, and the probabilities of it and those after it.

    Built from the ratios of neighbours, which needs no factorials of large numbers.
    """
    if probability <= 0 or probability >= 1:
        return (trials if probability >= 1 else np.zeros_like(trials)), np.ones((len(trials), 1))
    mean = trials * probability
    reach = REACH * np.sqrt(mean * (1 - probability)) + 40
    first = np.maximum(0, mean - reach).astype(np.int64)
    last = np.minimum(trials, (mean + reach).astype(np.int64))[:, np.newaxis]
    k = first[:, np.newaxis] + np.arange(int((last[:, 0] - first).max(initial=0)))
    inside = k < last
    odds = np.where(inside, (trials[:, np.newaxis] - k) / (k + 1.0), 1.0)
    steps = np.log(odds) + (np.log(probability) - np.log1p(-probability))
    log_mass = np.cumsum(np.where(inside, steps, -np.inf), axis=1)
    log_mass = np.concatenate([np.zeros((len(trials), 1)), log_mass], axis=1)
    mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
    return first, mass / mass.sum(axis=1, keepdims=True)


def growth(counts: IntArray, loss_probability: float) -> FloatArray:
    """Return the transition matrix between cells, given the probability that a block is lost.

    Row i is the distribution of c + Binomial(n - c, loss_probability) with c = counts[i]. A count
    between two cells is split between them so that the mean is kept.
    """
    blocks, size = int(counts[-1]), len(counts)
    matrix = np.empty((size, size))
    for start in range(0, size, ROWS_AT_ONCE):
        chunk = counts[start : start + ROWS_AT_ONCE]
        first, mass = binomial(blocks - chunk, loss_probability)
        reached = (chunk + first)[:, np.newaxis] + np.arange(mass.shape[1])
        reached = np.minimum(reached, blocks)  # beyond, the mass is 0
        lower = np.clip(np.searchsorted(counts, reached, side="right") - 1, 0, size - 2)
        share = (reached - counts[lower]) / (counts[lower + 1] - counts[lower])
        index = (np.arange(len(chunk))[:, np.newaxis] * size + lower).ravel()
        rows = np.bincount(index, (mass * (1 - share)).ravel(), len(chunk) * size)
        rows += np.bincount(index + 1, (mass * share).ravel(), len(chunk) * size)
        matrix[start : start + len(chunk)] = rows.reshape(len(chunk), size)
    return matrix
