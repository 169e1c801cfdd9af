"""Whole files are tagged in streams, over processes, and appear whole or not at all."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_holding import FILE_ID, NONCE, Holding, tag_in_memory

from holdfast.errors import InputError, MalformedError, RefusedError, StorageError
from holdfast.pdp import Location, SecretKey, TagFile, TagHeader, tag_file, tagging
from holdfast.pdp.journal import TagJournal
from holdfast.pdp.readers import LocalFile, Memory
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES, decode_pages, encode_pages
from holdfast.pdp.tagging import CHUNK_BYTES, Chunk, Helper, Task
from holdfast.pdp.tags import Tagger
from holdfast.processes import Child, start_child

KEY = SecretKey(b"k" * 32, 16)


def tag(source: Path, out: Path, **options: object) -> TagHeader:
    return tag_file(
        Location(str(source)),
        KEY,
        file_id=FILE_ID,
        version=1,
        out=out,
        nonce=NONCE,
        **options,  # type: ignore[arg-type]
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(os.urandom(2 * CHUNK_BYTES + 12345))
    return path


@pytest.mark.slow
def test_several_processes_write_the_same_tags_as_one(source: Path, tmp_path: Path) -> None:
    tag(source, tmp_path / "one", processes=1)
    tag(source, tmp_path / "two", processes=2)
    _, expected = tag_in_memory(KEY, source.read_bytes())
    assert (tmp_path / "one").read_bytes() == expected
    assert (tmp_path / "two").read_bytes() == expected


def test_progress_grows_up_to_the_whole_file(source: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    tag(source, tmp_path / "tags", progress=seen.append)
    assert seen == sorted(seen)
    assert len(seen) == 3
    assert seen[-1] == source.stat().st_size


def test_a_failure_half_way_leaves_nothing_behind(source: Path, tmp_path: Path) -> None:
    def fail(done: int) -> None:
        if done > CHUNK_BYTES:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tag(source, tmp_path / "tags", progress=fail)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_file_that_grows_meanwhile_is_not_tagged(source: Path, tmp_path: Path) -> None:
    def grow(_done: int) -> None:
        with source.open("ab") as file:
            file.write(b"more")

    with pytest.raises(Exception, match="changed while it was being tagged"):
        tag(source, tmp_path / "tags", progress=grow)
    assert not (tmp_path / "tags").exists()


def test_no_process_is_too_few(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1"):
        tag(source, tmp_path / "tags", processes=0)


def test_the_size_of_a_tag_file_is_known_beforehand(source: Path, tmp_path: Path) -> None:
    header = tag(source, tmp_path / "tags")
    assert header.file_bytes == (tmp_path / "tags").stat().st_size


@pytest.mark.parametrize("offset", [0, 20, 70, 80, HEADER_BYTES - 1])
def test_an_edited_header_is_refused(offset: int) -> None:
    _, content = tag_in_memory(KEY, b"x" * 10000)
    edited = bytearray(content)
    edited[offset] ^= 1
    with pytest.raises(MalformedError):
        TagFile(Memory(bytes(edited)))


@pytest.mark.parametrize("cut", [0, 1, HEADER_BYTES - 1, HEADER_BYTES, -1, -4])
def test_a_cut_off_tag_file_is_refused(cut: int) -> None:
    _, content = tag_in_memory(KEY, b"x" * 10000)
    with pytest.raises(MalformedError, match=r"cut off|not a Holdfast"):
        TagFile(Memory(content[:cut]))
    with pytest.raises(MalformedError, match="extended"):
        TagFile(Memory(content + b"\0"))


def test_damaged_tags_are_told_from_damaged_data() -> None:
    holding = Holding.of(62 * 30)
    assert holding.passes()
    holding.tags[0][HEADER_BYTES + PAGE_BYTES + 3] ^= 1
    with pytest.raises(MalformedError, match="tags from block 8 on"):
        holding.passes()


def test_swapped_pages_of_tags_are_noticed() -> None:
    holding = Holding.of(62 * 30)
    start, size, tags = HEADER_BYTES, PAGE_BYTES, holding.tags[0]
    first, second = tags[start : start + size], tags[start + size : start + 2 * size]
    tags[start : start + 2 * size] = second + first
    with pytest.raises(MalformedError, match="do not match their checksum"):
        holding.passes()


@given(st.sets(st.integers(0, 10_000), min_size=1, max_size=50), st.integers(1, 5))
@settings(deadline=None, max_examples=20)
def test_scattered_blocks_have_the_tags_that_they_have_in_a_run(
    places: set[int], sectors: int
) -> None:
    key, indices = SecretKey.generate(sectors), np.array(sorted(places), np.int64)
    rng = np.random.default_rng(1)
    blocks = rng.integers(0, 256, (len(indices), key.layout.block_bytes), np.uint8)
    tagger = Tagger(key, FILE_ID, 1, NONCE)
    alone = [
        tagger.tags(int(index), block[np.newaxis])[0]
        for index, block in zip(indices, blocks, strict=True)
    ]
    assert (tagger.scattered(indices, blocks) == np.array(alone)).all()


@given(st.integers(1, 40), st.integers(0, 5))
def test_pages_are_decoded_as_they_were_encoded(count: int, first: int) -> None:
    tags = np.random.default_rng(count).integers(0, 256, (count, 32), np.uint8)
    content = encode_pages(first, tags)
    decoded, intact = decode_pages(first, content)
    assert (decoded == tags).all()
    assert intact.all()
    damaged = bytearray(content)
    damaged[40 if count > 1 else 0] ^= 1
    _, intact = decode_pages(first, bytes(damaged))
    assert intact.tolist() == [False] * min(count, 8) + [True] * max(0, count - 8)


def test_the_journal_forgives_only_the_line_that_a_crash_cut_off(tmp_path: Path) -> None:
    journal = TagJournal(tmp_path / "journal")
    journal.add(FILE_ID, 1)
    with journal.path.open("ab") as file:
        file.write(b"0001020304")
    assert journal.latest_version(FILE_ID) == 1
    journal.add(FILE_ID, 2)
    assert journal.latest_version(FILE_ID) == 2
    with pytest.raises(RefusedError):
        journal.add(FILE_ID, 1)
    journal.path.write_bytes(journal.path.read_bytes().replace(b"1 ", b"x ", 1))
    with pytest.raises(MalformedError, match="line 1"):
        journal.latest_version(FILE_ID)


def test_a_local_file_is_read_exactly_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with LocalFile(path) as reader:
        assert reader.read_many([(2, 3), (9, 1), (10, 0)]) == [b"234", b"9", b""]
        with pytest.raises(Exception, match="ends before byte 12"):
            reader.read_many([(8, 4)])
    with pytest.raises(InputError, match="not a regular file"):
        LocalFile(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        LocalFile(tmp_path / "missing")


@pytest.mark.parametrize("wrong", [{"sectors": 0}, {"sectors": 1025}, {"version": 0}])
def test_a_header_of_an_impossible_key_or_version_is_refused(wrong: dict[str, int]) -> None:
    header, _ = tag_in_memory(KEY, b"x" * 100)
    with pytest.raises(MalformedError, match="impossible number of sectors or version"):
        TagHeader.decode(replace(header, **wrong).encode(), "it")  # type: ignore[arg-type]


def test_a_journal_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    with pytest.raises(StorageError, match=r"can't write .*journal: Is a directory"):
        TagJournal(tmp_path / "journal").add(FILE_ID, 1)


def test_tagging_ends_with_a_sentence_where_the_helper_was_killed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_and_kill(*work: Any) -> Child:
        child = start_child(*work)
        child.process.kill()
        child.process.join()
        return child

    monkeypatch.setattr(tagging, "start_child", start_and_kill)
    with pytest.raises(StorageError, match="a tagging process was killed"):
        tag(source, tmp_path / "tags", processes=2)
    assert not (tmp_path / "tags").exists()


def test_a_helper_answers_with_what_kept_it_from_tagging(tmp_path: Path) -> None:
    header, _ = tag_in_memory(KEY, b"x" * 100)
    task = Task(Location(str(tmp_path / "gone")), KEY, header, tmp_path / "tags")
    with start_child(tagging._help, task) as child:
        helper = Helper(child)
        helper.ask(Chunk(0, 1))
        with pytest.raises(StorageError, match="gone"):
            helper.answer()
