"""One figure over all training seeds, with an interval that shows their spread.

The interval is the 95 % bootstrap percentile of the interquartile mean. Seeds are resampled within
their own row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import FloatArray

RESAMPLES = 10_000
SEED = 20_240


@dataclass(frozen=True)
class Summary:
    """The figures of all seeds (None if a seed has none), and their summary."""

    by_seed: tuple[float | None, ...]
    mean: float | None = None
    iqm: float | None = None
    min: float | None = None
    max: float | None = None
    low: float | None = None  # of the interval
    high: float | None = None

    @property
    def known(self) -> list[float]:
        return [figure for figure in self.by_seed if figure is not None]


def summarise(by_seed: Sequence[float | None]) -> Summary:
    summary = Summary(tuple(by_seed))
    if not summary.known:
        return summary
    figures = np.array(summary.known)
    resamples = np.random.default_rng(SEED).integers(len(figures), size=(RESAMPLES, len(figures)))
    low, high = np.percentile(interquartile_mean(figures[resamples]), (2.5, 97.5))
    return Summary(
        by_seed=summary.by_seed,
        mean=float(figures.mean()),
        iqm=float(interquartile_mean(figures)),
        min=float(figures.min()),
        max=float(figures.max()),
        low=float(low),
        high=float(high),
    )


def interquartile_mean(figures: FloatArray) -> FloatArray:
    """Return the mean along the last axis without its lowest and its highest quarter."""
    count = figures.shape[-1]
    cut = count // 4
    middle = np.sort(figures, axis=-1)[..., cut : count - cut]
    return np.asarray(middle.mean(axis=-1), np.float64)
