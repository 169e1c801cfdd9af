"""One figure over all training seeds: their mean, with an interval that shows their spread.

The interval is Student's, which covers 95 % at as few as two seeds (`model.estimate.over_seeds`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import FloatArray
from holdfast.model.estimate import finite, over_seeds

MIN_QUARTERS = 4  # seeds: with fewer, the interquartile mean is the mean


@dataclass(frozen=True)
class Summary:
    """The figures of all seeds (None if a seed has none), and their summary."""

    by_seed: tuple[float | None, ...]
    mean: float | None = None
    iqm: float | None = None  # the interquartile mean; None with fewer than four seeds
    min: float | None = None
    max: float | None = None
    low: float | None = None  # of the interval of the mean; None with one seed
    high: float | None = None

    @property
    def known(self) -> list[float]:
        return [figure for figure in self.by_seed if figure is not None]


def summarise(
    by_seed: Sequence[float | None], least: float = -math.inf, most: float = math.inf
) -> Summary:
    """Return the summary of figures that lie between `least` and `most`."""
    summary = Summary(tuple(by_seed))
    if not summary.known:
        return summary
    figures = np.array(summary.known)
    estimate = over_seeds(summary.known, least, most)
    return Summary(
        by_seed=summary.by_seed,
        mean=estimate.value,
        iqm=float(interquartile_mean(figures)) if len(figures) >= MIN_QUARTERS else None,
        min=float(figures.min()),
        max=float(figures.max()),
        low=finite(estimate.low),
        high=finite(estimate.high),
    )


def interquartile_mean(figures: FloatArray) -> FloatArray:
    """Return the mean along the last axis without its lowest and its highest quarter."""
    count = figures.shape[-1]
    cut = count // 4
    middle = np.sort(figures, axis=-1)[..., cut : count - cut]
    return np.asarray(middle.mean(axis=-1), np.float64)
