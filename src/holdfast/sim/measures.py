"""The measures of a policy with their 95 % intervals, computed from a tally.

The intervals are bootstrap percentiles over whole episodes, resampled within each node type,
because the number of malicious nodes is fixed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from holdfast.model.arrays import FloatArray
from holdfast.model.estimate import Estimate, finite
from holdfast.sim.tally import Tally

RESAMPLES = 1000
WITHIN = (7, 14, 30)
MAIN_FIGURES = ("gas", "latency", "miss_rate")

_SUMMED = (
    "gas",
    "audits",
    "detections",
    "misses",
    "detections_malicious",
    "misses_malicious",
    "latency",
    "exposure",
    "undetected",
)


@dataclass(frozen=True)
class Measures:
    gas: Estimate  # per episode
    latency: Estimate  # mean over detections, since the paper's onset
    miss_rate: Estimate  # pooled misses / encounters
    detections_per_100: Estimate
    miss_rate_honest: Estimate  # by the node's type at the audit
    miss_rate_malicious: Estimate
    detected_within: Mapping[int, Estimate]  # share of events, by units since their true onset
    time_to_detection_p95: Estimate  # infinite where too many events stay undetected
    exposure: Estimate  # corrupted blocks x units, per episode
    undetected: Estimate  # share of episodes that end with corruption present
    audits: Estimate  # per episode


def measure(
    tally: Tally, *, seed: int = 0, resamples: int = RESAMPLES, within: Sequence[int] = WITHIN
) -> Measures:
    """Return the measures of a tally; `seed` is only for the bootstrap."""
    sums = _resampled_sums(tally, np.random.default_rng(seed), resamples)
    total = dict(zip(_SUMMED, sums.T, strict=False))
    detected, censored = np.split(sums[:, len(_SUMMED) :], 2, axis=1)
    survival = _survival(detected, censored)
    return Measures(
        gas=_estimate(total["gas"] / tally.episodes),
        latency=_estimate(_ratio(total["latency"], total["detections"])),
        miss_rate=_miss_rate(total["misses"], total["detections"]),
        detections_per_100=_estimate(100 * total["detections"] / tally.episodes),
        miss_rate_honest=_miss_rate(
            total["misses"] - total["misses_malicious"],
            total["detections"] - total["detections_malicious"],
        ),
        miss_rate_malicious=_miss_rate(total["misses_malicious"], total["detections_malicious"]),
        detected_within={
            units: _estimate(1 - survival[:, min(units, survival.shape[1] - 1)]) for units in within
        },
        time_to_detection_p95=_estimate(_quantile(survival, 0.95)),
        exposure=_estimate(total["exposure"] / tally.episodes),
        undetected=_estimate(total["undetected"] / tally.episodes),
        audits=_estimate(total["audits"] / tally.episodes),
    )


def main_figures(measures: Measures) -> dict[str, Any]:
    """Return gas, latency and miss rate as JSON holds them."""
    return {name: finite(asdict(getattr(measures, name))) for name in MAIN_FIGURES}


def still_undetected(tally: Tally) -> FloatArray:
    """Return the share of corruption events not detected 0, 1, ... units after their onset."""
    detected, censored = np.split(_events(tally).sum(axis=0), 2)
    (curve,) = _survival(detected[np.newaxis], censored[np.newaxis])
    return np.asarray(curve, np.float64)


def _resampled_sums(tally: Tally, rng: np.random.Generator, resamples: int) -> FloatArray:
    """Return the sums over all episodes, and below them those of each resample."""
    by_episode = np.column_stack([*(getattr(tally, name) for name in _SUMMED), _events(tally)])
    sums = [by_episode.sum(axis=0)]
    strata = [np.flatnonzero(tally.malicious == kind) for kind in (False, True)]
    for _ in range(resamples):
        weights = np.zeros(tally.episodes)
        for stratum in strata:
            if len(stratum):
                resample = rng.integers(len(stratum), size=len(stratum))
                weights[stratum] = np.bincount(resample, minlength=len(stratum))
        sums.append(weights @ by_episode)
    return np.array(sums)


def _events(tally: Tally) -> FloatArray:
    """Return by episode how many events ended after 0, 1, ... units: detected, then censored."""
    length = int(tally.event_delay.max(initial=0)) + 1
    counts = np.zeros((tally.episodes, 2 * length))
    column = tally.event_delay + np.where(tally.event_detected, 0, length)
    np.add.at(counts, (tally.event_episode, column), 1.0)
    return counts


def _survival(detected: FloatArray, censored: FloatArray) -> FloatArray:
    """Return the Kaplan-Meier estimate: share undetected after 0, 1, ... units."""
    ended = detected + censored
    at_risk = np.cumsum(ended[:, ::-1], axis=1)[:, ::-1]
    return np.cumprod(1 - detected / np.maximum(at_risk, 1), axis=1, dtype=np.float64)


def _quantile(survival: FloatArray, share: float) -> FloatArray:
    """Return the time by which this share of the events is detected."""
    reached = survival <= 1 - share
    return np.where(reached.any(axis=1), reached.argmax(axis=1), np.inf)


def _miss_rate(misses: FloatArray, detections: FloatArray) -> Estimate:
    return _estimate(_ratio(misses, misses + detections))


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _estimate(figures: FloatArray) -> Estimate:
    """Return the first figure with the 95 % interval of the others."""
    known = figures[1:][~np.isnan(figures[1:])]
    if not len(known):
        return Estimate(float(figures[0]), np.nan, np.nan)
    # "nearest" never subtracts one infinite time to detection from another.
    low, high = np.percentile(known, (2.5, 97.5), method="nearest")
    value = float(figures[0])
    # Sums in another order differ in their last digits: a constant must lie in its interval.
    return Estimate(value, min(value, float(low)), max(value, float(high)))
