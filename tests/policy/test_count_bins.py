"""Corruption grows as the binomial says, on every grid of counts."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.policy.count_bins import binomial, every_count, growth, reduced_counts


@given(st.integers(0, 60), st.floats(0, 1))
def test_the_binomial_is_the_textbooks(trials: int, probability: float) -> None:
    (first, *_), (mass, *_) = binomial(np.array([trials, trials // 2]), probability)
    whole = np.zeros(2 * trials + 2)
    whole[first : first + len(mass)] = mass
    assert not whole[trials + 1 :].any()
    textbook = [
        comb(trials, k) * probability**k * (1 - probability) ** (trials - k)
        for k in range(trials + 1)
    ]
    assert np.allclose(whole[: trials + 1], textbook, rtol=1e-9, atol=1e-15)


def test_a_binomial_of_ten_million_blocks_keeps_mean_and_variance() -> None:
    (first,), (mass,) = binomial(np.array([10_000_000]), 1e-3)
    k = np.arange(first, first + len(mass))
    mean = mass @ k
    assert mean == pytest.approx(1e4, rel=1e-9)
    assert mass @ (k - mean) ** 2 == pytest.approx(1e4 * 0.999, rel=1e-9)


def test_growing_twice_is_growing_for_both_spans() -> None:
    counts = every_count(40)
    once, twice = growth(counts, 0.1), growth(counts, 0.19)
    assert np.allclose(once @ once, twice, atol=1e-13)


@given(st.integers(1, 5000), st.floats(0, 1))
def test_cells_that_share_counts_keep_total_and_mean(blocks: int, lost: float) -> None:
    counts = reduced_counts(blocks)
    grown = growth(counts, lost)
    assert counts[0] == 0
    assert counts[-1] == blocks
    assert np.allclose(grown.sum(axis=1), 1, atol=1e-12)
    assert np.allclose(grown @ counts, counts + (blocks - counts) * lost, rtol=1e-9, atol=1e-9)


def test_a_reduced_grid_is_small_however_many_blocks_there_are() -> None:
    assert len(reduced_counts(10_000_000)) < 400
