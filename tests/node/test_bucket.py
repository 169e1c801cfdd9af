"""Ranges of a bucket's objects are asked for side by side, and only while someone waits."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.support.object_store import object_store

from holdfast.bench.object_server import Fault, ObjectServer
from holdfast.errors import StorageError
from holdfast.node.bucket import Bucket
from holdfast.node.daemon_pool import DaemonPool
from holdfast.node.objects import Folder, LostError, open_objects
from holdfast.node.time_limit import within
from holdfast.remote_systems import REQUESTS_AT_ONCE

COUNT = 200


@pytest.fixture
def store() -> Iterator[ObjectServer]:
    objects = {f"bucket/prefix/{k % 3}/{k:03}": bytes([k]) * 1000 for k in range(COUNT)}
    with object_store(objects) as store:
        yield store


def names() -> list[str]:
    return [f"{k % 3}/{k:03}" for k in range(COUNT)]


@pytest.mark.slow
def test_ranges_of_all_objects_are_asked_for_side_by_side(store: ObjectServer) -> None:
    store.delay_seconds = 0.1
    bucket = open_objects("s3://bucket/prefix")
    parts = bucket.read_spans([(name, [(10, 5), (20, 6)]) for name in names()])
    assert parts == [bytes([k]) * size for k in range(COUNT) for size in (5, 6)]
    assert store.requests == {"get": 2 * COUNT}, "a range is one request, without any other"
    assert REQUESTS_AT_ONCE // 2 < store.most_at_once <= REQUESTS_AT_ONCE


@pytest.mark.slow
def test_what_nobody_waits_for_any_more_is_not_asked_for(store: ObjectServer) -> None:
    bucket = open_objects("s3://bucket/prefix")
    bucket.read_spans([(names()[0], [(0, 1)])])
    store.fault = Fault.HANG
    with within(0.5), pytest.raises(StorageError, match="no answer in time"):
        bucket.read_spans([(name, [(0, 10)]) for name in names()])
    seen = store.most_at_once
    time.sleep(0.5)
    assert store.most_at_once == seen <= REQUESTS_AT_ONCE


@pytest.mark.slow
def test_a_listing_takes_a_request_a_page_and_shows_sizes_and_stamps(store: ObjectServer) -> None:
    store.objects |= {f"bucket/prefix/many/{k:04}": b"x" for k in range(1100)}
    bucket = open_objects("s3://bucket/prefix")
    listed = {found.name: found for found in bucket.walk()}
    assert len(listed) == COUNT + 1100
    assert store.requests == {"list": 2}
    assert listed["0/000"].size == 1000
    before = listed["0/000"].stamp
    store.write("bucket/prefix/0/000", b"y" * 1000)
    assert {found.name: found for found in bucket.walk()}["0/000"].stamp != before


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.FORBIDDEN, Fault.HANG])
def test_a_store_in_trouble_has_lost_nothing(store: ObjectServer, fault: Fault) -> None:
    bucket = open_objects("s3://bucket/prefix")
    store.fault = fault
    with within(2.0):
        with pytest.raises(StorageError) as failed:
            bucket.read_spans([(names()[0], [(0, 10)])])
        assert not isinstance(failed.value, LostError)
    with within(2.0), pytest.raises(StorageError):
        bucket.walk()


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_what_is_gone_or_too_short_is_lost_by_name() -> None:
    bucket = open_objects("s3://bucket/prefix")
    with pytest.raises(LostError, match="gone from s3://bucket/prefix: 0/gone"):
        bucket.read_spans([("0/000", [(0, 10)]), ("0/gone", [(0, 10)])])
    for offset in (995, 2000):  # the server sends less, or says that there is nothing
        with pytest.raises(LostError, match="0/000 ends before byte"):
            bucket.read_spans([("0/000", [(offset, 10)])])
    with pytest.raises(StorageError, match="nothing at s3://elsewhere"):
        open_objects("s3://elsewhere/prefix").walk()


class RangelessFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Gives whole objects, whatever range it is asked for."""

    protocol = "rangeless"

    def cat_file(self, path: str, **_options: Any) -> Any:
        return super().cat_file(path)


def test_a_back_end_that_ignores_ranges_has_lost_nothing() -> None:
    fsspec.register_implementation("rangeless", RangelessFileSystem, clobber=True)
    fsspec.filesystem("rangeless").pipe_file("rangeless://store/file", b"content")
    with pytest.raises(StorageError, match="ignores them") as failed:
        Bucket("rangeless://store").read_spans([("file", [(1, 2)])])
    assert not isinstance(failed.value, LostError)


def test_all_objects_of_a_folder_and_of_memory_are_listed_with_their_names(tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    for name in ("a", "b/c", "b/d/e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
        system.pipe_file(f"/walked/{name}", name.encode())
    (tmp_path / "link").symlink_to("a")
    folder = {found.name: found for found in Folder(tmp_path).walk()}
    assert {name: found.size for name, found in folder.items() if found.regular} == {
        "a": 1,
        "b/c": 3,
        "b/d/e": 5,
    }
    assert not folder["link"].regular
    memory = {found.name: found.size for found in Bucket("memory://walked").walk()}
    assert memory == {"a": 1, "b/c": 3, "b/d/e": 5}
    with pytest.raises(StorageError, match="there is no folder"):
        Folder(tmp_path / "gone").walk()


def test_a_thread_that_hangs_is_left_behind() -> None:
    pool = DaemonPool(2)
    with within(0.2), pytest.raises(TimeoutError):
        pool.map(time.sleep, [30.0, 0.0, 0.0])
    assert pool.map(str, [1, 2, 3]) == ["1", "2", "3"], "the other thread works on"


def test_an_error_ends_the_rest_of_a_batch() -> None:
    pool, begun = DaemonPool(1), []

    def work(number: int) -> None:
        begun.append(number)
        if number == 2:
            raise StorageError("the second")

    with pytest.raises(StorageError, match="the second"):
        pool.map(work, range(1, 100))
    assert begun == [1, 2]


def test_threads_without_work_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.node.daemon_pool.IDLE_SECONDS", 0.05)
    before = threading.active_count()
    pool = DaemonPool(8)
    assert pool.map(str, range(100)) == [str(number) for number in range(100)]
    end = time.monotonic() + 60
    while threading.active_count() > before:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert pool.map(str, [1]) == ["1"], "and begin again"
