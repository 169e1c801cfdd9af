"""The bound on damaged units is the hypergeometric one, counted out where that is possible."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InputError
from holdfast.model.damage_bound import most_damaged
from holdfast.model.detection import detection_probability


def likelihood(units: int, bad: int, read: int, damaged: int) -> Fraction:
    """Return the probability that at most `damaged` of the units read are bad, in fractions."""
    ways = sum(
        math.comb(bad, count) * math.comb(units - bad, read - count) for count in range(damaged + 1)
    )
    return Fraction(ways, math.comb(units, read))


def count_out(units: int, read: int, damaged: int, limit: Fraction) -> int:
    possible = range(damaged, units - (read - damaged) + 1)
    return max(bad for bad in possible if likelihood(units, bad, read, damaged) >= limit)


@pytest.mark.parametrize("units", [1, 2, 7, 20, 40])
def test_the_bound_is_the_one_that_counting_all_cases_gives(units: int) -> None:
    for read in range(units + 1):
        for damaged in range(read + 1):
            expected = count_out(units, read, damaged, Fraction(1, 20))
            assert most_damaged(units, read, damaged) == expected, (units, read, damaged)


@settings(max_examples=30)
@given(st.data())
def test_the_bound_falls_with_what_was_read_and_rises_with_what_was_damaged(
    data: st.DataObject,
) -> None:
    units = data.draw(st.integers(1, 3000))
    read = data.draw(st.integers(0, units))
    damaged = data.draw(st.integers(0, min(read, 20)))
    bound = most_damaged(units, read, damaged)
    assert damaged <= bound <= units - (read - damaged)
    if read < units:
        assert most_damaged(units, read + 1, damaged) <= bound
    if damaged < read:
        assert most_damaged(units, read, damaged + 1) >= bound
    assert most_damaged(units, read, damaged, 0.99) >= bound


@pytest.mark.parametrize(("units", "damaged"), [(1, 0), (164, 0), (164, 3), (1_000_000, 17)])
def test_where_all_was_read_nothing_is_left_to_guess(units: int, damaged: int) -> None:
    assert most_damaged(units, units, damaged) == damaged
    assert most_damaged(units, 0, 0) == units


@pytest.mark.parametrize(("units", "read"), [(1000, 300), (100_000, 460), (10_000_000, 2_000)])
def test_a_bound_without_damage_is_what_the_sample_would_have_found(units: int, read: int) -> None:
    bound = most_damaged(units, read, 0)
    assert detection_probability(bound, read, units) <= 0.95 + 1e-9
    assert detection_probability(bound + 1, read, units) > 0.95


def test_a_large_store_with_much_damage_has_a_bound_near_its_share() -> None:
    bound = most_damaged(10_000_000, 100_000, 20_000)
    assert 2_000_000 < bound < 2_030_000


@pytest.mark.parametrize("figures", [(10, 11, 0), (10, 5, 6), (10, 5, -1)])
def test_impossible_counts_are_refused(figures: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match="must ascend from 0"):
        most_damaged(*figures)
    with pytest.raises(InputError, match="the confidence must lie"):
        most_damaged(10, 5, 0, 1.0)
