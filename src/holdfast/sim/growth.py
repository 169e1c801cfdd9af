"""How corruption grew over an interval: how many blocks, since when, and the exposure."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Growth(ABC):
    """What one interval did to each node."""

    interval: IntArray
    before: IntArray  # blocks corrupted already
    grown: IntArray  # blocks corrupted by the end of the interval and not before

    @property
    def began(self) -> BoolArray:
        """Whether corruption appeared on an intact node."""
        return np.asarray((self.before == 0) & (self.grown > 0), np.bool_)

    @abstractmethod
    def first_unit(self) -> IntArray:
        """Return the unit, counted from 0, in which the first of the grown blocks went bad."""

    @abstractmethod
    def exposure(self) -> FloatArray:
        """Return the blocks that were bad, summed over the units of the interval."""


@dataclass(frozen=True)
class UnitGrowth(Growth):
    """A growth that was drawn unit by unit."""

    first: IntArray
    exposed: FloatArray

    def first_unit(self) -> IntArray:
        return self.first

    def exposure(self) -> FloatArray:
        return self.exposed


@dataclass(frozen=True)
class IntervalGrowth(Growth):
    """A growth that was drawn for the whole interval at once.

    Each unit corrupts Binomial(n - c, rate) further blocks. Blocks are independent, so a whole
    interval corrupts Binomial(n - c, loss probability by its end) of them. In which units that
    happened is computed only on demand.
    """

    loss_probability: FloatArray  # (units, batch): that an intact block is bad by the unit's end
    uniform: FloatArray  # in [0, 1): decides the first unit

    def first_unit(self) -> IntArray:
        """Return the unit of the first of the grown blocks.

        Given how many went bad, their units are independent. So the share of the interval's
        probability before the first of k is distributed like 1 - (1 - u)^(1/k).
        """
        share = -np.expm1(np.log1p(-self.uniform) / np.maximum(self.grown, 1))
        earlier = self.loss_probability < share * self.loss_probability[self._last]
        return np.asarray(earlier.sum(axis=0), np.int64)

    def exposure(self) -> FloatArray:
        """Return the exposure, given the number of blocks at the end.

        New ones count by the expected number of units they were bad, which has the same mean as
        sampling the unit of each, and less noise.
        """
        total = np.add.accumulate(self.loss_probability, axis=0)[self._last]
        units = total / np.maximum(self.loss_probability[self._last], 1e-300)
        return np.asarray(self.before * self.interval + self.grown * units, np.float64)

    @property
    def _last(self) -> tuple[IntArray, IntArray]:
        return self.interval - 1, np.arange(len(self.interval))
