"""Sets of blocks as spans do what sets of numbers do."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.pdp.spans import Spans

blocks = st.sets(st.integers(0, 60))


def spans(numbers: set[int]) -> Spans:
    return Spans.of_blocks(sorted(numbers))


def numbers(some: Spans) -> set[int]:
    return set(some.blocks.tolist())


@given(blocks)
def test_spans_have_the_blocks_they_were_made_of(some: set[int]) -> None:
    made = spans(some)
    assert numbers(made) == some
    assert made.count == len(some)
    assert bool(made) == bool(some)
    assert Spans.of(reversed(made.spans)) == made
    assert all(a[1] < b[0] for a, b in zip(made.spans, made.spans[1:], strict=False))
    if some:
        assert made.hull == (min(some), max(some) + 1)


@given(blocks, blocks)
def test_spans_are_joined_and_subtracted_as_sets_are(one: set[int], other: set[int]) -> None:
    assert spans(one).join(spans(other)) == spans(one | other)
    assert spans(one).without(spans(other)) == spans(one - other)


@given(blocks, st.integers(0, 60), st.integers(0, 60))
def test_spans_are_cut_and_shifted(some: set[int], start: int, length: int) -> None:
    stop = start + length
    assert spans(some).within(start, stop) == spans({n for n in some if start <= n < stop})
    assert spans(some).shift(7) == spans({n + 7 for n in some})


@given(blocks, st.integers(1, 20), st.integers(1, 5))
def test_parts_cross_no_border_and_have_few_spans(some: set[int], size: int, count: int) -> None:
    parts = list(spans(some).split(size, count))
    assert Spans().join(*parts) == spans(some)
    for part in parts:
        start, stop = part.hull
        assert start // size == (stop - 1) // size
        assert len(part.spans) <= count


@given(blocks, st.integers(0, 5))
def test_small_gaps_are_filled_and_larger_ones_are_not(some: set[int], gap: int) -> None:
    filled = spans(some).coalesce(gap)
    assert numbers(filled) >= some
    assert filled.without(spans(some)).count <= gap * len(some)
    assert all(b[0] - a[1] > gap for a, b in zip(filled.spans, filled.spans[1:], strict=False))
    assert not some or filled.hull == spans(some).hull


def test_spans_that_overlap_are_one() -> None:
    assert Spans.of([(5, 9), (1, 3), (3, 5), (7, 8), (20, 20)]).spans == ((1, 9),)
