"""Laws of the summary over seeds: nothing is lost, and the figures lie where they must."""

from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.model.estimate import NORMAL_95, over_seeds, student_95
from holdfast.paper.summary import interquartile_mean, summarise

FIGURES = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=9)
ROUNDING = 1e-6


@given(FIGURES)
@settings(max_examples=40, deadline=None)
def test_every_summary_lies_between_the_least_and_the_most(figures: list[float]) -> None:
    summary = summarise(figures)
    assert summary.by_seed == tuple(figures), "no seed is left out"
    assert (summary.min, summary.max) == (min(figures), max(figures))
    for figure in (summary.mean, summary.iqm):
        if figure is not None:
            assert min(figures) - ROUNDING <= figure <= max(figures) + ROUNDING
    assert (summary.iqm is None) == (len(figures) < 4), "of fewer it would be the mean"
    assert (summary.low is None) == (len(figures) == 1), "one seed shows no spread"


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_interval_covers_what_it_states(seeds: int) -> None:
    """In 2,000 repetitions, with a spread between seeds and the noise of their episodes."""
    rng = np.random.default_rng(seeds)
    trained = 5.0 + rng.normal(scale=0.5, size=(2000, seeds, 1))
    evaluated = (trained + rng.normal(scale=4.0, size=(2000, seeds, 50))).mean(axis=2)
    covered = 0
    for figures in evaluated.tolist():
        estimate = over_seeds(figures)
        covered += estimate.low <= 5.0 <= estimate.high
    assert 0.93 <= covered / 2000 <= 0.97


def test_student_approaches_the_normal_distribution() -> None:
    assert student_95(1) == pytest.approx(12.7062, abs=1e-4)
    assert student_95(30) == pytest.approx(2.0423, abs=1e-4)
    assert student_95(31) == pytest.approx(2.0395, abs=1e-4)
    assert student_95(100) == pytest.approx(1.9840, abs=1e-4)
    assert student_95(10**6) == pytest.approx(NORMAL_95, abs=1e-5)


def test_an_interval_ends_where_figures_do() -> None:
    summary = summarise([0.01, 0.9, 0.2], 0.0, 1.0)
    assert (summary.low, summary.high) == (0.0, 1.0)


@given(FIGURES, st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_the_order_of_the_seeds_does_not_move_the_figure(
    figures: list[float], random: Random
) -> None:
    shuffled = list(figures)
    random.shuffle(shuffled)
    assert summarise(shuffled).mean == pytest.approx(summarise(figures).mean, abs=ROUNDING)


@given(FIGURES, st.floats(0.1, 10.0), st.floats(-100.0, 100.0))
@settings(max_examples=20, deadline=None)
def test_another_unit_changes_the_interval_alike(
    figures: list[float], scale: float, offset: float
) -> None:
    assume(len(figures) > 1)
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
    assert summarise([None, None]).mean is None
