"""The probability of detection is exact where it says so, and the sample as small as it can be."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InputError
from holdfast.model.detection import detection_probability, gas, samples, samples_for


def by_definition(damaged: int, sampled: int, blocks: int) -> float:
    """Return 1 - C(n-c, s) / C(n, s) in whole numbers, divided once."""
    every = comb(blocks, sampled)
    return (every - comb(blocks - damaged, sampled)) / every


@given(st.data())
def test_exact_detection_is_the_hypergeometric_probability(data: st.DataObject) -> None:
    blocks = data.draw(st.integers(1, 3000))
    damaged = data.draw(st.integers(0, blocks))
    sampled = data.draw(st.integers(0, blocks))
    expected = by_definition(damaged, sampled, blocks)
    assert detection_probability(damaged, sampled, blocks) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("damaged", "sampled"),
    [(1, 1), (1, 10_000_000), (127, 1000), (128, 71_550), (129, 5000), (1500, 900), (61_749, 178)],
)
def test_exact_detection_keeps_twelve_digits_among_ten_million_blocks(
    damaged: int, sampled: int
) -> None:
    few, many = sorted((damaged, sampled))  # the probability is symmetric in the two
    missed = intact = 1
    for i in range(few):
        missed *= 10_000_000 - many - i
        intact *= 10_000_000 - i
    expected = (intact - missed) / intact
    probability = detection_probability(damaged, sampled, 10_000_000)
    assert probability == pytest.approx(expected, rel=1e-12)


def test_the_approximation_is_the_papers_and_below_the_exact_figure() -> None:
    damaged = np.array([0, 1, 5, 25, 1000])
    approximate = detection_probability(damaged, 100, 1000, "approximate")
    np.testing.assert_allclose(approximate, 1 - (1 - damaged / 1000) ** 100, rtol=1e-12)
    assert np.all(approximate[1:4] < detection_probability(damaged, 100, 1000)[1:4])


def test_damage_beyond_the_holding_is_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 10"):
        detection_probability(11, 1, 10)


@given(st.floats(0.01, 0.999), st.integers(1, 500), st.integers(0, 2000))
def test_the_sample_for_a_confidence_is_the_smallest(
    confidence: float, damaged: int, intact: int
) -> None:
    blocks = damaged + intact
    sampled = samples_for(confidence, damaged, blocks)
    assert detection_probability(damaged, sampled, blocks) >= confidence
    assert detection_probability(damaged, sampled - 1, blocks) < confidence


def test_samples_round_up_and_stop_at_the_cap() -> None:
    assert samples([0.01, 0.07, 0.20], 101, 15).tolist() == [2, 8, 15]
    assert samples([0.07], 100, 100).tolist() == [7], "0.07 * 100 is 7.000000000000001"


def test_gas_counts_a_transaction_and_each_sampled_block() -> None:
    assert gas(1000, 1000) == 1.0
    assert gas(100, 1000) == pytest.approx(71_000 / 521_000)


@pytest.mark.parametrize(
    ("confidence", "damaged", "said"),
    [
        (0.0, 1, "confidence must lie between 0 and 1"),
        (1.0, 1, "confidence must lie between 0 and 1"),
        (0.95, 0, "damaged blocks must lie between 1 and 100"),
        (0.95, 101, "damaged blocks must lie between 1 and 100"),
    ],
)
def test_no_sample_is_sought_for_what_can_not_be(
    confidence: float, damaged: int, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        samples_for(confidence, damaged, 100)
