"""Differences between policies on matched episodes, with intervals and a correction for many.

Episode k has the same world under every policy, so a difference is resampled by whole episodes that
both policies went through: what the world does to both cancels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray
from holdfast.model.estimate import Estimate
from holdfast.sim.tally import Tally

RESAMPLES = 2000
_SUMS = ("gas", "latency", "misses", "detections", "exposure", "undetected")


@dataclass(frozen=True)
class Difference:
    """By how much a policy differs from the baseline in one measure; less is better in each."""

    estimate: Estimate  # the policy's figure less the baseline's, with its 95 % interval
    probability_of_improvement: float  # that the policy's figure is the lower one
    p_value: float  # two-sided
    p_holm: float = math.nan  # corrected for all comparisons of the table


@dataclass(frozen=True, eq=False)
class EpisodeSums:
    """What differences are computed from: the sums of each episode."""

    malicious: BoolArray
    sums: FloatArray  # (episodes, sums)


def episode_sums(tally: Tally) -> EpisodeSums:
    return EpisodeSums(tally.malicious, np.column_stack([getattr(tally, name) for name in _SUMS]))


def compare(
    baseline: EpisodeSums, others: Mapping[str, EpisodeSums], seed: int = 0
) -> dict[str, dict[str, Difference]]:
    """Return each policy's differences from the baseline, by measure."""
    everyone = [baseline.sums, *(other.sums for other in others.values())]
    means = _resampled_means(
        baseline.malicious, np.concatenate(everyone, axis=1), np.random.default_rng(seed)
    )
    reference, *figures = map(_figures, np.split(means, len(everyone), axis=1))
    differences = {
        name: {measure: _difference(column - reference[measure]) for measure, column in row.items()}
        for name, row in zip(others, figures, strict=True)
    }
    return _corrected(differences)


def _resampled_means(
    malicious: BoolArray, columns: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return the means over all episodes, and below them those of resamples within each type."""
    strata = [np.flatnonzero(malicious == kind) for kind in (False, True)]
    means = [columns.mean(axis=0)]
    for _ in range(RESAMPLES):
        weights = np.zeros(len(malicious))
        for stratum in filter(len, strata):
            resample = rng.integers(len(stratum), size=len(stratum))
            weights[stratum] = np.bincount(resample, minlength=len(stratum))
        means.append(weights @ columns / len(malicious))
    return np.array(means)


def _figures(means: FloatArray) -> dict[str, FloatArray]:
    total = dict(zip(_SUMS, means.T, strict=True))
    encounters = total["misses"] + total["detections"]
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "gas": total["gas"],
            "latency": total["latency"] / total["detections"],
            "miss_rate": total["misses"] / encounters,
            "exposure": total["exposure"],
            "undetected": total["undetected"],
        }


def _difference(differences: FloatArray) -> Difference:
    """Return the first difference, and what the resampled others tell about it."""
    value, resampled = float(differences[0]), differences[1:]
    known = resampled[np.isfinite(resampled)]
    if not math.isfinite(value) or not len(known):
        return Difference(Estimate(math.nan, math.nan, math.nan), math.nan, math.nan)
    low, high = np.percentile(known, (2.5, 97.5))
    below, above = float((known <= 0).mean()), float((known >= 0).mean())
    better = float((known < 0).mean() + (known == 0).mean() / 2)
    # Resampling can't tell less than one in its number.
    p_value = min(1.0, max(2 * min(below, above), 1 / (len(known) + 1)))
    estimate = Estimate(value, min(value, float(low)), max(value, float(high)))
    return Difference(estimate, better, p_value)


def _corrected(
    differences: Mapping[str, Mapping[str, Difference]],
) -> dict[str, dict[str, Difference]]:
    """Return the differences with Holm's correction over all of them."""
    places = [(name, measure) for name, row in differences.items() for measure in row]
    known = [place for place in places if math.isfinite(_at(differences, place).p_value)]
    corrected = holm([_at(differences, place).p_value for place in known])
    by_place = dict(zip(known, corrected, strict=True))
    return {
        name: {
            measure: replace(difference, p_holm=by_place.get((name, measure), math.nan))
            for measure, difference in row.items()
        }
        for name, row in differences.items()
    }


def _at(differences: Mapping[str, Mapping[str, Difference]], place: tuple[str, str]) -> Difference:
    return differences[place[0]][place[1]]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's corrected p-values: all true hypotheses are kept with 95 % together."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
