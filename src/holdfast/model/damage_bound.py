"""An upper bound on the damaged units of a store of which some were read.

It is exact: the units read are a random sample without replacement, so the number of damaged ones
among them is hypergeometric.
"""

import math

from holdfast.errors import InputError

# Rounding must not lower the bound: a figure this near to the limit counts as beyond it.
_ROUNDING = 1e-9


def most_damaged(units: int, read: int, damaged: int, confidence: float = 0.95) -> int:
    """Return how many units are damaged at most, if `damaged` of those that were read are."""
    if not 0 <= damaged <= read <= units:
        raise InputError(
            f"damaged, read and all units must ascend from 0, not be {damaged}, {read}, {units}"
        )
    if not 0.5 <= confidence < 1:
        raise InputError(f"the confidence must lie between 0.5 and 1, not at {confidence:g}")
    limit = (1 - confidence) * (1 - _ROUNDING)
    low, high = damaged, units - (read - damaged)  # those read and intact stay out
    while low < high:
        middle = (low + high + 1) // 2
        if _is_as_likely(limit, units, middle, read, damaged):
            low = middle
        else:
            high = middle - 1
    return low


def _is_as_likely(limit: float, units: int, bad: int, read: int, damaged: int) -> bool:
    """Return whether at most `damaged` of the units read would be bad with that probability."""
    if damaged * units >= read * bad:  # at least as many as expected: one half, or more
        return True
    term = math.exp(
        _log_choose(bad, damaged)
        + _log_choose(units - bad, read - damaged)
        - _log_choose(units, read)
    )
    total = 0.0
    for count in range(damaged, -1, -1):  # below the mean the terms fall towards zero
        total += term
        if total >= limit or term < limit * _ROUNDING / (damaged + 1):
            break
        above = (bad - count + 1) * (read - count + 1)
        term *= count * (units - bad - read + count) / above
    return total >= limit


def _log_choose(units: int, some: int) -> float:
    return math.lgamma(units + 1) - math.lgamma(some + 1) - math.lgamma(units - some + 1)
