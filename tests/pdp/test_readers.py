"""Rows read from files: those that were asked for, however near each other they lie."""

import os
from collections.abc import Sequence
from pathlib import Path

import fsspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.memory_holding import Holding

from holdfast.errors import StorageError
from holdfast.pdp import Prover, StoredFile, TagFile, draw_challenge, readers
from holdfast.pdp.readers import (
    LOCAL_GAP,
    LocalFile,
    Memory,
    Part,
    Range,
    RemoteFile,
    read_rows,
)

SIZE = 7
CONTENT = bytes(range(250))


class Patchy:
    """A file that reads together what is near, and has bytes that can't be read."""

    name, batch_bytes = "patchy", 1000

    def __init__(self, content: bytes, gap_bytes: int, bad: frozenset[int] = frozenset()) -> None:
        self.content, self.gap_bytes, self.bad = content, gap_bytes, bad
        self.ranges: list[Range] = []

    def size(self) -> int:
        return len(self.content)

    def read_many(self, ranges: Sequence[Range]) -> Sequence[Part]:
        for offset, length in ranges:
            if self.bad & set(range(offset, offset + length)):
                raise StorageError("the disk has a bad sector")
        self.ranges += ranges
        return Memory(self.content).read_many(ranges)


@given(
    numbers=st.sets(st.integers(0, 33), min_size=1),
    gap=st.integers(0, 300),
    origin=st.integers(0, 20),
    cut=st.integers(0, SIZE - 1),
)
def test_rows_are_those_of_the_definition(
    numbers: set[int], gap: int, origin: int, cut: int
) -> None:
    ascending = sorted(numbers)
    end = min(origin + (ascending[-1] + 1) * SIZE - cut, len(CONTENT))
    reader = Patchy(CONTENT, gap)
    rows = read_rows(reader, np.array(ascending), SIZE, origin=origin, end=end)
    starts = [origin + number * SIZE for number in ascending]
    expected = [CONTENT[at : min(at + SIZE, end)].ljust(SIZE, b"\0") for at in starts]
    assert [row.tobytes() for row in rows] == expected
    assert all(offset + length <= end for offset, length in reader.ranges)


def test_near_rows_are_read_together_and_far_ones_apart() -> None:
    reader = Patchy(CONTENT, gap_bytes=2 * SIZE)
    read_rows(reader, np.array([1, 4, 5, 9]), SIZE, origin=0, end=len(CONTENT))
    assert reader.ranges == [(SIZE, 5 * SIZE), (9 * SIZE, SIZE)]


def test_what_lies_between_rows_need_not_be_readable() -> None:
    """A bad sector in a block that nobody sampled is no damage of the sample."""
    bad = frozenset({3 * SIZE})
    near = Patchy(CONTENT, 100, bad)
    rows = read_rows(near, np.array([2, 4]), SIZE, origin=0, end=len(CONTENT))
    assert rows.tobytes() == CONTENT[2 * SIZE : 3 * SIZE] + CONTENT[4 * SIZE : 5 * SIZE]
    with pytest.raises(StorageError, match="bad sector"):
        read_rows(near, np.array([2, 3]), SIZE, origin=0, end=len(CONTENT))


@pytest.mark.parametrize("samples", [1, 7, 60, 501])
def test_a_proof_from_a_file_is_that_from_memory(tmp_path: Path, samples: int) -> None:
    holding = Holding.of(62 * 500 + 9)
    (tmp_path / "data").write_bytes(holding.contents[0])
    (tmp_path / "tags").write_bytes(holding.tags[0])
    challenge = draw_challenge(holding.inventory, samples)
    with LocalFile(tmp_path / "data") as data, LocalFile(tmp_path / "tags") as tags:
        assert data.gap_bytes == LOCAL_GAP > 62
        files = {holding.ids[0]: StoredFile(data, TagFile(tags))}
        proof = Prover(holding.inventory, files).prove(challenge)
    assert proof == holding.prove(challenge)


def test_a_slow_file_is_fetched_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    ranges = [(offset, 2) for offset in range(0, 200, 4)]
    advised: list[Range] = []

    def advise(_handle: int, offset: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        advised.append((offset, length))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    for seconds, fetched in ((60, []), (0, ranges[1:])):
        monkeypatch.setattr(readers, "SLOW_READ_SECONDS", seconds)
        with LocalFile(tmp_path / "file") as file:
            assert file.read_many(ranges) == [CONTENT[at : at + n] for at, n in ranges]
        assert advised == fetched, "what is not read yet, once"


def test_a_file_that_shrinks_while_it_is_open_is_an_error_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    with LocalFile(path) as file:
        path.write_bytes(b"")
        with pytest.raises(StorageError, match="ends before byte"):
            read_rows(file, np.arange(0, 2000, 3), 496, origin=0, end=1 << 20)


def test_a_remote_file_that_is_gone_or_shrinks_is_an_error_and_no_crash() -> None:
    system = fsspec.filesystem("memory")
    system.pipe_file("/holding/file", CONTENT)
    with RemoteFile("memory://holding/file") as file:
        assert file.read_many([(0, 3), (5, 2)]) == [CONTENT[:3], CONTENT[5:7]]
        system.pipe_file("/holding/file", CONTENT[:4])
        with pytest.raises(StorageError, match="ends before byte 7"):
            file.read_many([(0, 3), (5, 2)])
        system.rm("/holding/file")
        with pytest.raises(StorageError, match="can't read memory://holding/file"):
            file.read_many([(0, 3)])


def test_a_file_that_is_closed_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    with LocalFile(tmp_path / "file") as file:
        pass
    with pytest.raises(StorageError, match=r"can't read .*file: Bad file descriptor"):
        file.read_many([(0, 1)])


def test_memory_has_no_more_than_its_bytes() -> None:
    with pytest.raises(StorageError, match="ends before"):
        Memory(b"12").read_many([(1, 2)])
