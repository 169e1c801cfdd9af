"""The probability that an audit finds damage, the sample size this takes, and the gas it costs."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from holdfast.errors import InputError
from holdfast.model.arrays import FloatArray, IntArray

Detection = Literal["approximate", "exact"]

# Gas of a verification: a transaction, and each sampled block (DESIGN.md, "gas").
TRANSACTION_GAS = 21_000
BLOCK_GAS = 500

# Below this many factors the hypergeometric product is multiplied out; above, Stirling's series
# has lost less than 1e-13 of the probability for up to 1e7 blocks.
_FACTORS = 128
# A miss of probability exp(-40) leaves 1.0 as the probability of detection in double precision.
_CERTAIN = 40.0


def samples(ratio: ArrayLike, blocks: ArrayLike, cap: int) -> IntArray:
    """Return s = ceil(p n), at most `cap` and at most all blocks."""
    # 0.07 * 100 is 7.000000000000001: a tiny excess is rounding, not another block.
    blocks = np.asarray(blocks, np.float64)
    wanted = np.ceil(np.asarray(ratio, np.float64) * blocks * (1 - 1e-12))
    return np.asarray(np.clip(wanted, 1, np.minimum(cap, blocks)), np.int64)


def gas(sampled: ArrayLike, blocks: ArrayLike) -> FloatArray:
    """Return the cost of an audit, as a share of the cost of one that samples every block."""
    cost = TRANSACTION_GAS + BLOCK_GAS * np.asarray(sampled, np.float64)
    return np.asarray(cost / (TRANSACTION_GAS + BLOCK_GAS * np.asarray(blocks)), np.float64)


def detection_probability(
    damaged: ArrayLike, sampled: ArrayLike, blocks: int, kind: Detection = "exact"
) -> FloatArray:
    """Return the probability that a sample contains at least one damaged block (Eq. pdet)."""
    c, s = np.broadcast_arrays(np.asarray(damaged, np.float64), np.asarray(sampled, np.float64))
    if c.size and (min(c.min(), s.min()) < 0 or max(c.max(), s.max()) > blocks):
        raise InputError(f"damaged and sampled blocks must lie between 0 and {blocks}")
    log_miss = (
        _log_miss_with_replacement(c, s, blocks)
        if kind == "approximate"
        else (_log_miss(np.minimum(c, s), np.maximum(c, s), blocks))
    )
    return np.asarray(-np.expm1(log_miss), np.float64)


def samples_for(confidence: float, damaged: int, blocks: int) -> int:
    """Return the smallest sample that finds `damaged` bad blocks with this confidence (exact)."""
    if not 0 < confidence < 1:
        raise InputError(f"the confidence must lie between 0 and 1, not at {confidence:g}")
    if not 1 <= damaged <= blocks:
        raise InputError(f"the damaged blocks must lie between 1 and {blocks}, not at {damaged}")
    low, high = 0, blocks - damaged + 1  # no sample of `high` blocks is free of damage
    while high - low > 1:
        middle = (low + high) // 2
        if detection_probability(damaged, middle, blocks) >= confidence:
            high = middle
        else:
            low = middle
    return high


def _log_miss_with_replacement(c: FloatArray, s: FloatArray, n: int) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((c == 0) | (s == 0), 0.0, s * np.log1p(-c / n))


def _log_miss(few: FloatArray, many: FloatArray, n: int) -> FloatArray:
    """Return log C(n-c, s) / C(n, s), which is symmetric in c and s: `few` is the smaller."""
    certain = (few * many > _CERTAIN * n) | (few + many > n)
    direct = ~certain & (few < _FACTORS)
    series = ~certain & (few >= _FACTORS)
    result = np.full(few.shape, -np.inf)
    result[direct] = _product(few[direct], many[direct], n)
    result[series] = _stirling(few[series], many[series], n)
    return result


def _product(few: FloatArray, many: FloatArray, n: int) -> FloatArray:
    total = np.zeros(few.shape)
    for i in range(int(few.max(initial=0))):
        total += np.where(i < few, np.log1p(-np.minimum(many, n - i - 1) / (n - i)), 0.0)
    return total


def _stirling(few: FloatArray, many: FloatArray, n: int) -> FloatArray:
    """Return the same by ln x! = (x + 1/2) ln x - x + ln(2 pi)/2 + 1/(12 x) - 1/(360 x^3).

    Terms that cancel are removed first: those in ln n, and x from (1-x) ln(1-x) + x.
    """
    both = few + many
    leading = n * (_entropy(few / n) + _entropy(many / n) - _entropy(both / n))
    halves = 0.5 * (np.log1p(-few / n) + np.log1p(-many / n) - np.log1p(-both / n))
    tail = _tail(n - few) + _tail(n - many) - _tail(np.float64(n)) - _tail(n - both)
    return np.asarray(leading + halves + tail, np.float64)


def _entropy(x: FloatArray) -> FloatArray:
    """Return (1-x) ln(1-x) + x, without cancellation for small x."""
    series = np.zeros(x.shape)
    for j in range(14, 1, -1):  # Horner's rule on the sum of x^j / (j (j-1))
        series = series * x + 1 / (j * (j - 1))
    return np.where(x < 0.05, series * x * x, (1 - x) * np.log1p(-x) + x)


def _tail(x: FloatArray | np.float64) -> FloatArray | np.float64:
    return 1 / (12 * x) - 1 / (360 * x**3)
