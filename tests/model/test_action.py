"""The grid numbers every interval with every ratio, as the paper does."""

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.model.action import GRID, Action


def test_actions_are_numbered_interval_first() -> None:
    assert GRID.size == 25
    assert GRID.action(0) == Action(1, 0.01)
    assert GRID.action(4) == Action(1, 0.20)
    assert GRID.action(GRID.index(4, 4)) == Action(14, 0.20)
    for a in range(GRID.size):
        assert GRID.action(a) == (GRID.interval_of[a], GRID.ratio_of[a])
        assert GRID.index_of(*GRID.action(a)) == a


def test_the_nearest_action_is_the_stricter_of_two_as_close() -> None:
    assert GRID.action(GRID.nearest(4, 0.04)) == Action(3, 0.05)
    assert GRID.action(GRID.nearest(1000, 0.0)) == Action(14, 0.01)


def test_an_action_off_the_grid_is_refused_with_what_there_is() -> None:
    with pytest.raises(InputError, match=r"intervals are 1, 3, 5, 7, 14, the ratios 0\.01, 0\.03"):
        GRID.index_of(2, 0.05)
    with pytest.raises(InputError, match="0 to 24"):
        GRID.action(25)


def test_the_shared_arrays_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        GRID.interval_of[0] = 2
    assert GRID.ratio_of.dtype == np.float64
