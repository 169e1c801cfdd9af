"""Whether audits find what the formula says they find, told by damage that was planted.

A sample that holds a damaged block should always fail. The efficacy is the share of such samples
that do.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.inference.estimate import Estimate
from holdfast.model.arrays import BoolArray, FloatArray

# As likely as not the formula is right, which is proved for honest verification; if something in
# the operation breaks it, any efficacy below 1 is as likely as any other.
SOUND = 0.5
_POINTS = 400


@dataclass(frozen=True, eq=False)
class Trials:
    """Audits of planted damage."""

    expected: FloatArray  # probability of detection, by the formula
    detected: BoolArray


@dataclass(frozen=True, eq=False)
class Efficacy:
    values: FloatArray
    weights: FloatArray  # of each value; the last value is 1

    @property
    def sound(self) -> float:
        """Return the probability that the formula is right."""
        return float(self.weights[-1])

    @property
    def estimate(self) -> Estimate:
        heights = np.cumsum(self.weights)
        low, high = (self.values[np.searchsorted(heights, q)] for q in (0.025, 0.975 - 1e-12))
        return Estimate(float(self.values @ self.weights), float(low), float(high))

    def draw(self, source: np.random.Generator) -> float:
        return float(source.choice(self.values, p=self.weights))


SOUNDLY = Efficacy(np.ones(1), np.ones(1))  # where nothing was planted


def efficacy(trials: Trials) -> Efficacy:
    """Return the posterior of the efficacy; certainly 1 where nothing was planted."""
    if not len(trials.expected):
        return SOUNDLY
    values = np.append((np.arange(_POINTS) + 0.5) / _POINTS, 1.0)
    prior = np.append(np.full(_POINTS, (1 - SOUND) / _POINTS), SOUND)
    chance = np.clip(np.outer(values, trials.expected), 1e-12, 1 - 1e-12)
    likely = np.log(np.where(trials.detected, chance, 1 - chance)).sum(axis=1)
    weights = prior * np.exp(likely - likely.max())
    return Efficacy(values, weights / weights.sum())
