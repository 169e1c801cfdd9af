"""Strikes and collisions have the laws that they are named after."""

import math
from typing import Any

import numpy as np
import pytest

from holdfast.sim.strikes import (
    collisions,
    collisions_of_one,
    logarithms,
    strike_table,
    strikes,
)

EVENLY = (np.arange(20_000) + 0.5) / 20_000


def shares(counts: Any, length: int) -> Any:
    return np.bincount(counts, minlength=length)[:length] / len(counts)


@pytest.mark.parametrize(("blocks", "rate"), [(1, 0.3), (1000, 0.001), (1000, 0.05), (60, 0.9)])
def test_strikes_are_binomial(blocks: int, rate: float) -> None:
    struck = strikes(blocks, np.full(len(EVENLY), rate), EVENLY)
    expected = [
        math.comb(blocks, k) * rate**k * (1 - rate) ** (blocks - k) for k in range(blocks + 1)
    ]
    assert np.abs(shares(struck, blocks + 1) - expected).max() < 2 / len(EVENLY)
    assert (np.diff(struck) >= 0).all(), "more strikes for a larger number"
    looked_up = strike_table(blocks, rate).quantile(EVENLY)
    np.testing.assert_array_equal(struck, looked_up)


def test_strikes_of_many_rates_at_once() -> None:
    rng = np.random.default_rng(0)
    rate = rng.choice([0.0, 1e-5, 0.001, 0.05, 0.2], size=5000)
    uniform = rng.random(5000)
    expected = [
        int(strike_table(1000, r).quantile(np.array([u]))[0])
        for r, u in zip(rate.tolist(), uniform.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(strikes(1000, rate, uniform), expected)
    assert strikes(10**7, np.array([0.05]), np.array([0.5])) == 500_000


@pytest.mark.parametrize(
    ("blocks", "corrupted", "struck"),
    [(1, 1, 1), (1000, 3, 2), (1000, 300, 50), (1000, 999, 50), (1000, 50, 999), (40, 30, 25)],
)
def test_collisions_are_hypergeometric(blocks: int, corrupted: int, struck: int) -> None:
    size = len(EVENLY)
    again = collisions(blocks, np.full(size, corrupted), np.full(size, struck), EVENLY)
    expected = [
        math.comb(corrupted, k)
        * math.comb(blocks - corrupted, struck - k)
        / math.comb(blocks, struck)
        if k <= struck
        else 0.0
        for k in range(corrupted + 1)
    ]
    assert np.abs(shares(again, corrupted + 1) - expected).max() < 4 / size


def test_collisions_of_one_are_those_of_many() -> None:
    rng = np.random.default_rng(1)
    for blocks in (1, 7, 1000, 100_000):
        corrupted = rng.integers(1, blocks + 1, size=500)
        struck = rng.integers(1, max(2, min(blocks, 400)) + (blocks == 7), size=500)
        uniform = rng.random(500)
        logs = logarithms(blocks)
        one = [
            collisions_of_one(c, s, u, logs.factorial.data, logs.pair.data)
            for c, s, u in zip(corrupted.tolist(), struck.tolist(), uniform.tolist(), strict=True)
        ]
        np.testing.assert_array_equal(collisions(blocks, corrupted, struck, uniform), one)
        assert (one <= np.minimum(corrupted, struck)).all()
        assert (one >= corrupted + struck - blocks).all()
