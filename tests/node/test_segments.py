"""Segments read as one sequence of bytes, wherever their borders fall."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.node import objects
from holdfast.node.objects import open_objects
from holdfast.node.segments import SegmentedReader, count_segments, segment_range
from holdfast.pdp import readers
from holdfast.pdp.readers import LocalFile, Range

CONTENT = bytes(range(100))
RANGES = st.integers(0, 100).flatmap(
    lambda start: st.tuples(st.just(start), st.integers(0, 100 - start))
)


@given(size=st.integers(1, 120), ranges=st.lists(RANGES, max_size=20), ordered=st.booleans())
def test_every_range_is_that_of_the_whole(
    size: int, ranges: list[tuple[int, int]], ordered: bool
) -> None:
    stored = open_objects(f"memory://segments/{size}")
    for number in range(count_segments(len(CONTENT), size)):
        start, length = segment_range(number, len(CONTENT), size)
        stored.write(f"s{number}", CONTENT[start : start + length])
    reader = SegmentedReader(stored, "all", lambda n: f"s{n}", len(CONTENT), size)
    ranges = sorted(ranges) if ordered else ranges
    assert reader.read_many(ranges) == [CONTENT[at : at + length] for at, length in ranges]


def test_segments_divide_a_length_without_gap_or_overlap() -> None:
    for length in range(50):
        ranges = [segment_range(n, length, 7) for n in range(count_segments(length, 7))]
        places = [place for start, size in ranges for place in range(start, start + size)]
        assert places == list(range(length))


def test_segments_on_a_slow_disk_are_fetched_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (tmp_path / f"s{number}").write_bytes(CONTENT[25 * number : 25 * (number + 1)])
    fetched: list[tuple[str, list[Range]]] = []

    def prefetch(file: LocalFile, ranges: list[Range]) -> None:
        fetched.append((Path(file.name).name, ranges))

    monkeypatch.setattr(LocalFile, "prefetch", prefetch)
    monkeypatch.setattr(readers, "SLOW_READ_SECONDS", 0)
    monkeypatch.setattr(objects, "OPENING_SECONDS", 0)
    reader = SegmentedReader(open_objects(str(tmp_path)), "all", lambda n: f"s{n}", 100, 25)
    assert reader.read_many([(1, 2), (40, 20), (77, 3)]) == [
        CONTENT[1:3],
        CONTENT[40:60],
        CONTENT[77:80],
    ]
    assert fetched == [("s1", [(15, 10)]), ("s2", [(0, 10)]), ("s3", [(2, 3)])]
