"""A measured or inferred figure with its 95 % interval, and its form in JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any, Self

NORMAL_95 = 1.959964  # standard deviations on either side
# The same for Student's t with 1, 2, ... degrees of freedom.
_STUDENT_95 = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004),
    *(2.262157, 2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905),
    *(2.109816, 2.100922, 2.093024, 2.085963, 2.079614, 2.073873, 2.068658, 2.063899),
    *(2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272),
)


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval; not a number where nothing could be measured."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Figure:
    """An estimate as JSON holds it: null for what is not a finite number."""

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, estimate: Estimate, per: float = 1.0) -> Self:
        scaled = {name: number / per for name, number in asdict(estimate).items()}
        return cls(**finite(scaled))


def student_95(freedom: int) -> float:
    """Return how many standard errors Student's t allows on either side."""
    if freedom <= len(_STUDENT_95):
        return _STUDENT_95[freedom - 1]
    z = NORMAL_95  # the first terms of the expansion around the normal distribution
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def over_seeds(
    figures: Sequence[float], least: float = -math.inf, most: float = math.inf
) -> Estimate:
    """Return the mean over independent seeds with Student's interval, cut to the possible figures.

    The spread between seeds contains the noise of the episodes that each was evaluated on. One seed
    shows no spread: its interval is not a number.
    """
    mean = fmean(figures)
    if len(figures) < 2:
        return Estimate(mean, math.nan, math.nan)
    reach = student_95(len(figures) - 1) * stdev(figures) / math.sqrt(len(figures))
    return Estimate(mean, max(mean - reach, least), min(mean + reach, most))


def finite(data: Any) -> Any:
    """Return numbers, alone or in a mapping, with None for each that is not finite: JSON has none.

    Keys become text.
    """
    if isinstance(data, dict):
        return {str(key): finite(value) for key, value in data.items()}
    return data if math.isfinite(data) else None
