"""How many blocks a unit of time strikes, and how many of those were corrupted already.

Every block is struck independently with the node's rate, so Binomial(n, rate) blocks are struck,
whatever their state: that number is the same under every policy. Of the c blocks that are corrupted
already, a hypergeometric number is among them. The others are Binomial(n - c, rate) new ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from holdfast.model.arrays import FloatArray, IntArray

_NEGLIGIBLE = 1e-18  # probability, relative to the mode's
_ROUNDING = 1e-9
_FEW = 8.0  # expected strikes, up to which counting from 0 is faster than a table


@dataclass(frozen=True, eq=False)
class StrikeTable:
    """The distribution of the blocks that one unit strikes."""

    least: int
    cumulative: FloatArray  # of least, least + 1, ...; the last is 1

    def quantile(self, uniform: FloatArray) -> IntArray:
        return self.least + np.searchsorted(self.cumulative, uniform, side="right")


@lru_cache(maxsize=8192)
def strike_table(blocks: int, rate: float) -> StrikeTable:
    """Return the distribution Binomial(blocks, rate), computed outwards from its mode."""
    odds = rate / (1.0 - rate)
    mode = min(int((blocks + 1) * rate), blocks)
    reach = int(12 * math.sqrt(blocks * rate * (1.0 - rate))) + 40
    above = np.arange(mode, min(mode + reach, blocks))
    below = np.arange(mode, max(mode - reach, 0), -1)
    up = np.cumprod((blocks - above) / (above + 1) * odds)
    down = np.cumprod(below / ((blocks - below + 1) * odds)) if len(below) else np.empty(0)
    up, down = up[up > _NEGLIGIBLE], down[down > _NEGLIGIBLE]
    cumulative = np.cumsum(np.concatenate([down[::-1], [1.0], up]))
    return StrikeTable(mode - len(down), cumulative / cumulative[-1])


def strikes(blocks: int, rate: FloatArray, uniform: FloatArray) -> IntArray:
    """Return how many blocks of each node are struck: the quantile of its uniform number."""
    struck = np.empty(len(rate), np.int64)
    few = blocks * rate < _FEW
    struck[few] = _few_strikes(blocks, rate[few], uniform[few])
    struck[~few] = _many_strikes(blocks, rate[~few], uniform[~few])
    return struck


def _few_strikes(blocks: int, rate: FloatArray, uniform: FloatArray) -> IntArray:
    """Subtract the probabilities of 0, 1, 2, ... from the uniform number until it is used up."""
    struck = np.zeros(len(rate), np.int64)
    probability = np.exp(blocks * np.log1p(-rate))
    left = uniform - probability
    node = np.flatnonzero(left >= 0)
    odds, probability, left = (rate / (1.0 - rate))[node], probability[node], left[node]
    count = 0
    while len(node) and count < blocks:
        probability = probability * odds * ((blocks - count) / (count + 1))
        count += 1
        left = left - probability
        struck[node] = count
        running = (left >= 0) & (probability > _NEGLIGIBLE)
        odds, probability, left, node = (
            array[running] for array in (odds, probability, left, node)
        )
    return struck


def _many_strikes(blocks: int, rate: FloatArray, uniform: FloatArray) -> IntArray:
    """Look the numbers up, once for all nodes of one rate."""
    order = np.argsort(rate, kind="stable")
    ordered = rate[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1.0)).tolist()
    struck = np.empty(len(rate), np.int64)
    for begin, end in pairwise([*begins, len(rate)]):
        group = order[begin:end]
        struck[group] = strike_table(blocks, float(ordered[begin])).quantile(uniform[group])
    return struck


@dataclass(frozen=True, eq=False)
class Logarithms:
    """For 0 to n: the logarithms of k! and of k! (n - k)!."""

    factorial: FloatArray
    pair: FloatArray


@lru_cache(maxsize=4)
def logarithms(blocks: int) -> Logarithms:
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, blocks + 1)))])
    return Logarithms(factorial, factorial + factorial[::-1])


def collisions(blocks: int, corrupted: IntArray, struck: IntArray, uniform: FloatArray) -> IntArray:
    """Return how many of the struck blocks were corrupted before: hypergeometric numbers.

    A uniform number is used up by the probabilities of the mode, then of the numbers beside it, one
    above and one below, until nothing is left of it.
    """
    logs, pairs = logarithms(blocks).factorial, logarithms(blocks).pair
    spare = blocks - corrupted - struck
    mode = (struck + 1) * (corrupted + 1) // (blocks + 2)
    log_mode = (
        (pairs[corrupted] + pairs[struck] - logs[blocks])
        - (logs[mode] + logs[corrupted - mode])
        - (logs[struck - mode] + logs[spare + mode])
    )
    result = mode.copy()
    above, below = np.exp(log_mode), np.exp(log_mode)
    left = uniform - above
    node = np.flatnonzero(left >= 0)
    bad, spare, struck, high, low, above, below, left = (
        array[node] for array in (corrupted, spare, struck, mode, mode, above, below, left)
    )
    while len(node):
        above = above * ((bad - high) * (struck - high) / ((high + 1) * (spare + high + 1)))
        high = high + 1
        left = left - above
        ended = left < 0
        result[node[ended]] = high[ended]
        below = below * (low * (spare + low) / ((bad - low + 1) * (struck - low + 1)))
        low = low - 1
        left = left - below
        ended_below = ~ended & (left < 0)
        result[node[ended_below]] = low[ended_below]
        # Rounding may leave something when no probability is left: the mode is then the result.
        running = (left >= 0) & (above + below > 0)
        bad, spare, struck, high, low, above, below, left, node = (
            array[running] for array in (bad, spare, struck, high, low, above, below, left, node)
        )
    return result


def collisions_of_one(
    corrupted: int, struck: int, uniform: float, logs: Sequence[float], pairs: Sequence[float]
) -> int:
    """Return the same for one node, by the logarithms of its number of blocks."""
    blocks = len(logs) - 1
    mode = (struck + 1) * (corrupted + 1) // (blocks + 2)
    if not mode and uniform < 1.0 - corrupted * struck / blocks - _ROUNDING:
        return 0  # which is at least that probable
    spare = blocks - corrupted - struck
    above = below = math.exp(
        (pairs[corrupted] + pairs[struck] - logs[blocks])
        - (logs[mode] + logs[corrupted - mode])
        - (logs[struck - mode] + logs[spare + mode])
    )
    left = uniform - above
    high = low = mode
    while left >= 0 and above + below:
        above *= (corrupted - high) * (struck - high) / ((high + 1) * (spare + high + 1))
        high += 1
        left -= above
        if left < 0:
            return high
        below *= low * (spare + low) / ((corrupted - low + 1) * (struck - low + 1))
        low -= 1
        left -= below
        if left < 0:
            return low
    return mode
