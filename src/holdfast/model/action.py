"""The actions of a policy: how long to wait until the next audit, and how much to sample."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError
from holdfast.model.arrays import FloatArray, IntArray

S = TypeVar("S", np.int64, np.float64)


class Action(NamedTuple):
    """Wait `interval` time units, then challenge the share `ratio` of the blocks."""

    interval: int
    ratio: float


@dataclass(frozen=True)
class ActionGrid:
    """Every interval with every ratio, numbered `a = i_dt * len(ratios) + i_p` (paper, 6.1)."""

    intervals: tuple[int, ...] = (1, 3, 5, 7, 14)
    ratios: tuple[float, ...] = (0.01, 0.03, 0.05, 0.10, 0.20)

    @property
    def size(self) -> int:
        return len(self.intervals) * len(self.ratios)

    def index(self, i_dt: int, i_p: int) -> int:
        return i_dt * len(self.ratios) + i_p

    @cached_property
    def interval_of(self) -> IntArray:
        """The interval of each action, by its index."""
        return _constant(np.repeat(np.array(self.intervals, np.int64), len(self.ratios)))

    @cached_property
    def ratio_of(self) -> FloatArray:
        """The sampling ratio of each action, by its index."""
        return _constant(np.tile(np.array(self.ratios, np.float64), len(self.intervals)))

    def action(self, index: int) -> Action:
        if not 0 <= index < self.size:
            raise InputError(
                f"there is no action {index}: actions are numbered 0 to {self.size - 1}"
            )
        i_dt, i_p = divmod(int(index), len(self.ratios))
        return Action(self.intervals[i_dt], self.ratios[i_p])

    def nearest(self, interval: float, ratio: float) -> int:
        """Return the action closest in interval and in ratio; on a tie the stricter."""
        i_dt = min(
            range(len(self.intervals)),
            key=lambda i: (abs(self.intervals[i] - interval), self.intervals[i]),
        )
        i_p = min(
            range(len(self.ratios)), key=lambda i: (abs(self.ratios[i] - ratio), -self.ratios[i])
        )
        return self.index(i_dt, i_p)

    def index_of(self, interval: float, ratio: float) -> int:
        """Return the action with exactly this interval and ratio."""
        index = self.nearest(interval, ratio)
        action_at = self.action(index)
        if action_at.interval != interval or abs(action_at.ratio - ratio) > 1e-9:
            intervals = ", ".join(map(str, self.intervals))
            ratios = ", ".join(f"{value:g}" for value in self.ratios)
            raise InputError(
                f"({interval:g}, {ratio:g}) is not on the grid of actions:"
                f" the intervals are {intervals}, the ratios {ratios}"
            )
        return index


def _constant(array: NDArray[S]) -> NDArray[S]:
    array.setflags(write=False)
    return array


GRID = ActionGrid()
