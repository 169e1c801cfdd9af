"""The price of misses rises above the ceiling, falls below it, and keeps to its bounds."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.learn.multiplier import Multiplier, adaptive

counts = st.integers(0, 400)
prices = st.floats(0.0, 200.0)
ceilings = st.floats(0.01, 0.99)


@given(prices, ceilings, counts, counts)
def test_it_moves_towards_its_ceiling_and_stays_in_its_bounds(
    price: float, rho: float, misses: int, detections: int
) -> None:
    before = adaptive(rho).with_value(price)
    after = before.after(misses, detections)
    assert 0.0 <= after.value <= 200.0
    encounters = misses + detections
    if encounters and misses / encounters >= rho:
        assert after.value >= before.value
    else:
        assert after.value <= before.value
    assert abs(after.value - before.value) <= before.step * 1.0000001


@given(prices)
def test_an_episode_without_an_encounter_says_nothing(price: float) -> None:
    assert adaptive().with_value(price).after(0, 0) == adaptive().with_value(price)


@given(prices, counts, counts)
def test_a_fixed_price_stays(price: float, misses: int, detections: int) -> None:
    assert Multiplier(price).after(misses, detections).value == price


def test_one_episode_of_misses_alone_adds_the_step_that_the_paper_names() -> None:
    assert adaptive(0.05).after(3, 0).value == 10.0 + 5.0 * 0.95
    assert adaptive(0.05).after(0, 3).value == 10.0 - 5.0 * 0.05
