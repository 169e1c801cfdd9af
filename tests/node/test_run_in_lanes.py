"""Work in lanes is done side by side, and its results come in order."""

import threading
from collections.abc import Iterator

import pytest

from holdfast.node.lanes import run_in_lanes

TIMEOUT_SECONDS = 10.0


def test_results_come_in_the_order_of_the_items() -> None:
    second_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(TIMEOUT_SECONDS), "the second item ran beside the first"
        if item == 1:
            second_is_done.set()
        return item * item

    assert list(run_in_lanes(work, range(5), 2)) == [0, 1, 4, 9, 16]


def test_no_item_is_taken_long_before_its_turn() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = run_in_lanes(lambda item: item, items(), 2)
    assert next(results) == 0
    assert len(taken) <= 3


def test_after_an_error_no_further_item_is_taken() -> None:
    taken: list[int] = []

    def work(item: int) -> int:
        taken.append(item)
        if item == 3:
            raise ValueError("the fourth")
        return item

    with pytest.raises(ValueError, match="the fourth"):
        list(run_in_lanes(work, range(100), 2))
    assert len(taken) < 10
