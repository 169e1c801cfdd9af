"""How corruption grows over an interval, and what that says about its unseen course."""

from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Growth:
    """What one interval did to each node.

    Each unit corrupts Binomial(n - c, rate) further blocks. Blocks fare independently, so what a
    whole interval corrupts is one draw, Binomial(n - c, lost by its end), and the units in which
    it happened follow afterwards, when they are asked for.
    """

    interval: IntArray
    before: IntArray  # blocks corrupted already
    grown: IntArray  # blocks corrupted by the end of the interval and not before
    lost: FloatArray  # (units, batch): how likely an intact block has gone bad by each unit's end
    luck: FloatArray  # uniform, decides about the first unit

    @property
    def began(self) -> BoolArray:
        """Whether corruption appeared on an intact node."""
        return np.asarray((self.before == 0) & (self.grown > 0), np.bool_)

    def first_unit(self) -> IntArray:
        """Return the unit, counted from 0, in which the first of the grown blocks went bad.

        Given how many did, each did so in its unit independently, so that the share of the
        interval's probability that comes before the first of k is distributed like
        1 - (1 - u)^(1/k).
        """
        share = -np.expm1(np.log1p(-self.luck) / np.maximum(self.grown, 1))
        earlier = self.lost < share * self.lost[self._last]
        return np.asarray(earlier.sum(axis=0), np.int64)

    def exposure(self) -> FloatArray:
        """Return the blocks that were bad, summed over the units of the interval.

        The grown ones count by the units they can be expected to have been bad: that has the
        same mean as drawing the unit of each, and less noise.
        """
        total = np.add.accumulate(self.lost, axis=0)[self._last]
        units = total / np.maximum(self.lost[self._last], 1e-300)
        return np.asarray(self.before * self.interval + self.grown * units, np.float64)

    @property
    def _last(self) -> tuple[IntArray, IntArray]:
        return self.interval - 1, np.arange(len(self.interval))
