"""The demo's time can be moved ahead, and only ahead."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.demo.clock import Clock


@given(st.lists(st.integers(-(10**9), 10**10), max_size=20))
def test_time_never_goes_back(moves: list[int]) -> None:
    clock = Clock()
    for move in moves:
        before = clock()
        clock.reach(before + move)
        assert clock() >= max(before, before + move)
