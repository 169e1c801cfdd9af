"""The price of misses rises above the ceiling, falls below it, and keeps to its bounds."""

import json

from hypothesis import given
from hypothesis import strategies as st

from holdfast.learn.multiplier import Multiplier, PidMultiplier, adaptive

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


@given(st.lists(st.tuples(counts, counts), max_size=40))
def test_a_controller_stays_in_its_bounds_and_resumes_where_it_was(
    episodes: list[tuple[int, int]],
) -> None:
    controller = PidMultiplier(step=5.0)
    for misses, detections in episodes:
        controller = controller.after(misses, detections)
        assert 0.0 <= controller.value <= 200.0
        assert len(controller.averages) <= controller.delay + 1
    state = json.loads(json.dumps(controller.state()))
    assert PidMultiplier(step=5.0).restore(state) == controller


def test_a_controller_answers_at_once_and_lets_go_at_once() -> None:
    slow, quick = adaptive(), PidMultiplier(step=5.0)
    for _ in range(20):
        slow, quick = slow.after(1, 1), quick.after(1, 1)
    assert quick.value > slow.value + 20
    for _ in range(60):
        slow, quick = slow.after(0, 2), quick.after(0, 2)
    assert quick.value < slow.value


def test_without_its_other_parts_a_controller_is_the_papers_multiplier() -> None:
    plain, controller = (
        adaptive(),
        PidMultiplier(step=5.0, proportional_gain=0.0, derivative_gain=0.0),
    )
    for misses, detections in ((3, 1), (0, 0), (0, 5), (2, 7)):
        plain, controller = plain.after(misses, detections), controller.after(misses, detections)
        assert controller.value == plain.value
