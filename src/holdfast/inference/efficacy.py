"""The efficacy of audits, estimated from planted damage (canaries).

A sample that contains a damaged block should always fail. The efficacy is the share of such
samples that do.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray
from holdfast.model.estimate import Estimate

# The prior probability that audits work as proved. Otherwise, if something in operation breaks
# them, every efficacy below 1 is equally likely.
SOUND_PRIOR = 0.5
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
        """Return the probability that audits detect all that they sample."""
        return float(self.weights[-1])

    @property
    def estimate(self) -> Estimate:
        cumulative = np.cumsum(self.weights)
        low, high = (self.values[np.searchsorted(cumulative, q)] for q in (0.025, 0.975 - 1e-12))
        return Estimate(float(self.values @ self.weights), float(low), float(high))

    def sample(self, rng: np.random.Generator) -> float:
        return float(rng.choice(self.values, p=self.weights))


PERFECT = Efficacy(np.ones(1), np.ones(1))  # if nothing was planted


def efficacy(trials: Trials) -> Efficacy:
    """Return the posterior of the efficacy; exactly 1 if nothing was planted."""
    if not len(trials.expected):
        return PERFECT
    values = np.append((np.arange(_POINTS) + 0.5) / _POINTS, 1.0)
    prior = np.append(np.full(_POINTS, (1 - SOUND_PRIOR) / _POINTS), SOUND_PRIOR)
    detection = np.clip(np.outer(values, trials.expected), 1e-12, 1 - 1e-12)
    log_likelihood = np.log(np.where(trials.detected, detection, 1 - detection)).sum(axis=1)
    weights = prior * np.exp(log_likelihood - log_likelihood.max())
    return Efficacy(values, weights / weights.sum())
