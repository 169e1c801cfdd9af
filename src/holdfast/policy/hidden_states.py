"""The hidden modes of a node: its type, whether it is in a burst, and its rate of damage."""

from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray
from holdfast.model.scenario import Scenario

# If nodes draw their rate from a range, each type has this many equally likely rates.
RATE_CLASSES = 7


@dataclass(frozen=True, eq=False)
class Modes:
    """Types, and within a type bursts and rates; one entry of each array per mode."""

    malicious: BoolArray
    rate: FloatArray  # probability per unit that a block goes bad
    bold_rate: FloatArray  # the same after a long quiet period
    prior: FloatArray
    turning: FloatArray  # probability per unit of moving from mode to mode
    fixed: bool  # whether nodes keep their mode

    def prior_within(self, malicious: bool) -> FloatArray:
        """Return the prior of each mode, given the type."""
        weight = np.where(self.malicious == malicious, self.prior, 0.0)
        if weight.sum() == 0:  # a type that this scenario lacks: its modes are equally likely
            weight = np.where(self.malicious == malicious, 1.0, 0.0)
        return np.asarray(weight / weight.sum(), np.float64)


def modes_of(scenario: Scenario) -> Modes:
    """List the modes of a scenario.

    Exact for `paper` and `drift`. A range of rates becomes `RATE_CLASSES` classes; a node that
    turns then draws its class anew.
    """
    honest = _classes(scenario.honest_rate, scenario.honest_spread)
    malicious = _classes(scenario.malicious_rate, scenario.malicious_spread)
    bursts = (False, True) if scenario.burst_start > 0 else (False,)
    burst_prior = np.array([1 - scenario.burst_share, scenario.burst_share])[: len(bursts)]

    kinds = [(False, burst, rate) for burst in bursts for rate in honest]
    kinds += [(True, burst, rate) for burst in bursts for rate in malicious]
    type_of = np.array([kind for kind, _, _ in kinds])
    burst_of = np.array([burst for _, burst, _ in kinds])
    base = np.array([rate for _, _, rate in kinds])
    classes = np.where(type_of, len(malicious), len(honest))
    share = np.where(type_of, scenario.malicious_share, 1 - scenario.malicious_share)
    rate = np.where(~type_of & burst_of, base * scenario.burst_factor, base)
    return Modes(
        malicious=type_of,
        rate=rate,
        bold_rate=np.where(type_of, base * scenario.quiet_factor, rate),
        prior=share * burst_prior[burst_of.astype(int)] / classes,
        turning=_turning(scenario, type_of, burst_of, base),
        fixed=not scenario.drifts,
    )


def _classes(rate: float, spread: float) -> list[float]:
    """Return the medians of equal parts of the log-uniform range."""
    if spread == 1:
        return [rate]
    middles = (np.arange(RATE_CLASSES) + 0.5) / RATE_CLASSES
    return [float(value) for value in rate * spread ** (2 * middles - 1)]


def _turning(
    scenario: Scenario, type_of: BoolArray, burst_of: BoolArray, base: FloatArray
) -> FloatArray:
    leave_type = np.where(type_of, scenario.turn_honest, scenario.turn_malicious)[:, np.newaxis]
    leave_burst = np.where(burst_of, scenario.burst_end, scenario.burst_start)[:, np.newaxis]
    same_type = type_of[:, np.newaxis] == type_of
    same_burst = burst_of[:, np.newaxis] == burst_of
    same_class = base[:, np.newaxis] == base
    drawn_anew = 1 / np.array([np.count_nonzero((type_of == kind) & ~burst_of) for kind in type_of])
    into_class = np.where(same_type, same_class, drawn_anew)
    into_type = np.where(same_type, 1 - leave_type, leave_type)
    return into_type * np.where(same_burst, 1 - leave_burst, leave_burst) * into_class
