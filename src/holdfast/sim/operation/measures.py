"""The measures of a policy in the operator's world, with their 95 % intervals over nodes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import FloatArray
from holdfast.model.estimate import Estimate
from holdfast.model.operation import DAYS_PER_YEAR, Operation
from holdfast.sim.operation.tally import Tally

Z = 1.959964


@dataclass(frozen=True)
class OperationMeasures:
    """Figures per node-year; those by material share and by days are keyed so."""

    audits_per_year: Estimate
    reads_per_year: Estimate
    cost_per_year: Estimate
    exposure_per_year: Estimate  # damaged share x days
    failures_per_year: Estimate
    replacements_per_year: Estimate
    onsets_per_100_node_years: Mapping[str, Estimate]  # by the material share
    late_per_onset: Mapping[str, Mapping[str, Estimate]]  # and by the days that are allowed


def measure(tally: Tally) -> OperationMeasures:
    scenario = tally.scenario
    years = scenario.days / DAYS_PER_YEAR
    return OperationMeasures(
        audits_per_year=mean(tally.audits / years),
        reads_per_year=mean(tally.reads / years),
        cost_per_year=mean(cost(tally, scenario) / years),
        exposure_per_year=mean(tally.exposure / years),
        failures_per_year=mean(tally.failures / years),
        replacements_per_year=mean(tally.replacements / years),
        onsets_per_100_node_years={
            f"{share:g}": mean(100 * onsets / years)
            for share, onsets in zip(scenario.material, tally.onsets, strict=True)
        },
        late_per_onset={
            f"{share:g}": {
                f"{days:g}": ratio(late, onsets)
                for days, late in zip(scenario.late_after, by_days, strict=True)
            }
            for share, by_days, onsets in zip(
                scenario.material, tally.late, tally.onsets, strict=True
            )
        },
    )


def cost(tally: Tally, scenario: Operation) -> FloatArray:
    return np.asarray(scenario.per_audit * tally.audits + scenario.per_block * tally.reads)


def mean(figures: FloatArray) -> Estimate:
    """Return the mean over nodes with its normal interval; none for a single node."""
    value = float(figures.mean())
    if len(figures) < 2:
        return Estimate(value, np.nan, np.nan)
    half = Z * float(figures.std(ddof=1)) / len(figures) ** 0.5
    return Estimate(value, value - half, value + half)


def ratio(part: FloatArray, whole: FloatArray) -> Estimate:
    """Return the quotient of two sums over nodes, with its interval by the delta method."""
    if not whole.sum():
        return Estimate(np.nan, np.nan, np.nan)
    value = float(part.sum() / whole.sum())
    residual = mean(part - value * whole)
    half = (residual.high - residual.value) / float(whole.mean())
    return Estimate(value, value - half, value + half)
