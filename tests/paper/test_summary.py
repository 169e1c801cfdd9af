"""Laws of the summary over seeds: nothing is lost, and the figures lie where they must."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.paper.summary import interquartile_mean, summarise

FIGURES = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=9)
ROUNDING = 1e-6


@given(FIGURES)
@settings(max_examples=40, deadline=None)
def test_every_summary_lies_between_the_least_and_the_most(figures: list[float]) -> None:
    summary = summarise(figures)
    assert summary.by_seed == tuple(figures), "no seed is left out"
    assert (summary.min, summary.max) == (min(figures), max(figures))
    for figure in (summary.mean, summary.iqm, summary.low, summary.high):
        assert figure is not None
        assert min(figures) - ROUNDING <= figure <= max(figures) + ROUNDING


@given(FIGURES, st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_the_order_of_the_seeds_does_not_move_the_figure(
    figures: list[float], random: Random
) -> None:
    shuffled = list(figures)
    random.shuffle(shuffled)
    assert summarise(shuffled).iqm == pytest.approx(summarise(figures).iqm, abs=ROUNDING)


@given(FIGURES, st.floats(0.1, 10.0), st.floats(-100.0, 100.0))
@settings(max_examples=20, deadline=None)
def test_another_unit_changes_the_interval_alike(
    figures: list[float], scale: float, offset: float
) -> None:
    plain, moved = summarise(figures), summarise([scale * figure + offset for figure in figures])
    assert plain.low is not None
    assert plain.high is not None
    assert moved.low == pytest.approx(scale * plain.low + offset, rel=1e-6, abs=1e-3)
    assert moved.high == pytest.approx(scale * plain.high + offset, rel=1e-6, abs=1e-3)


def test_the_interquartile_mean_ignores_a_single_outlier() -> None:
    assert summarise([4.0, 5.0, 6.0, 5.0, 1000.0]).iqm == pytest.approx(16 / 3)
    assert interquartile_mean(np.array([1.0, 3.0])) == 2.0


def test_equal_seeds_have_an_interval_of_one_point() -> None:
    summary = summarise([0.05] * 5)
    assert summary.low == summary.high == pytest.approx(0.05)


def test_the_interval_is_wider_where_seeds_differ_more_and_the_same_each_time() -> None:
    calm, wild = summarise([4.9, 5.0, 5.1, 5.0, 5.0]), summarise([3.0, 5.0, 7.0, 4.0, 6.0])
    assert calm.low is not None
    assert calm.high is not None
    assert wild.low is not None
    assert wild.high is not None
    assert wild.high - wild.low > calm.high - calm.low > 0
    assert wild == summarise([3.0, 5.0, 7.0, 4.0, 6.0])


def test_a_seed_without_a_figure_is_kept_as_a_gap() -> None:
    summary = summarise([5.0, None, 7.0])
    assert summary.by_seed == (5.0, None, 7.0)
    assert summary.known == [5.0, 7.0]
    assert summary.mean == 6.0
    assert summarise([None, None]).iqm is None
