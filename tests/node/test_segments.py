"""Segments read as one sequence of bytes, wherever their borders fall."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.node.objects import open_objects
from holdfast.node.segments import SegmentedReader, count_segments, segment_range

CONTENT = bytes(range(100))
RANGES = st.integers(0, 100).flatmap(
    lambda start: st.tuples(st.just(start), st.integers(0, 100 - start))
)


@given(size=st.integers(1, 120), ranges=st.lists(RANGES, max_size=20), ordered=st.booleans())
def test_every_range_is_that_of_the_whole(
    size: int, ranges: list[tuple[int, int]], ordered: bool
) -> None:
    objects = open_objects(f"memory://segments/{size}")
    for number in range(count_segments(len(CONTENT), size)):
        start, length = segment_range(number, len(CONTENT), size)
        objects.write(f"s{number}", CONTENT[start : start + length])
    reader = SegmentedReader(objects, "all", lambda n: f"s{n}", len(CONTENT), size)
    ranges = sorted(ranges) if ordered else ranges
    assert reader.read_many(ranges) == [CONTENT[at : at + length] for at, length in ranges]


def test_segments_divide_a_length_without_gap_or_overlap() -> None:
    for length in range(50):
        ranges = [segment_range(n, length, 7) for n in range(count_segments(length, 7))]
        places = [place for start, size in ranges for place in range(start, start + size)]
        assert places == list(range(length))
