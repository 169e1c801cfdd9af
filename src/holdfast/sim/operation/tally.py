"""Counts of what happened to each node, from which the measures are computed.

An onset is an event that damages a material share, or a campaign (rot or cheating) that would
within the episode if nobody audited. So it is the same whoever audits: auditing more can't pad it.
Damage is late if it was material for longer than the days that are allowed, every time anew.
"""

import numpy as np

from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.operation import Operation


class Tally:
    """Sums by node. Axes of onsets are (threshold, node), of lateness (threshold, days, node)."""

    def __init__(self, scenario: Operation, count: int) -> None:
        self.scenario = scenario
        self.audits = np.zeros(count)
        self.reads = np.zeros(count)
        self.failures = np.zeros(count)
        self.replacements = np.zeros(count)
        self.exposure = np.zeros(count)  # damaged share x days
        self.onsets = np.zeros((len(scenario.material), count))
        self.late = np.zeros((len(scenario.material), len(scenario.late_after), count))
        self._material_since = np.full((len(scenario.material), count), np.nan)

    def count_audits(self, node: IntArray, samples: IntArray) -> None:
        self.audits[node] += 1
        self.reads[node] += samples

    def begin_campaign(self, node: IntArray, at: FloatArray, rate: FloatArray) -> None:
        """Count damage that begins to grow, by so much a day."""
        for onsets, share in zip(self.onsets, self.scenario.material, strict=True):
            onsets[node] += at + share / rate < self.scenario.days

    def strike(self, node: IntArray, at: FloatArray, before: FloatArray, after: FloatArray) -> None:
        """Count damage that comes at once."""
        parts = zip(self.scenario.material, self.onsets, self._material_since, strict=True)
        for share, onsets, since in parts:
            crosses = (before < share) & (after >= share)
            onsets[node[crosses]] += 1
            since[node[crosses]] = at[crosses]

    def grow(
        self,
        node: IntArray,
        at: FloatArray,
        days: FloatArray,
        before: FloatArray,
        slope: FloatArray,
    ) -> None:
        """Add the exposure of days in which damage grows, and note when it becomes material."""
        growing = np.maximum(slope, 1e-300)
        ramp = np.minimum(days, (1.0 - before) / growing)  # until everything is damaged
        self.exposure[node] += before * days + slope * ramp * (days - ramp / 2)
        after = before + slope * days
        for share, since in zip(self.scenario.material, self._material_since, strict=True):
            crosses = (before < share) & (after >= share)
            since[node[crosses]] = (at + (share - before) / growing)[crosses]

    def find(self, node: IntArray, at: FloatArray) -> None:
        """Count which damage of these nodes was found too late."""
        for late, since in zip(self.late, self._material_since, strict=True):
            waited = at - since[node]
            for counts, days in zip(late, self.scenario.late_after, strict=True):
                counts[node] += waited > days  # false where nothing material was there
            since[node] = np.nan
