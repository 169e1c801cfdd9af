"""Storage that fails is named with the object, in a folder and behind an address alike."""

from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from holdfast.errors import InputError, StorageError
from holdfast.node.bucket import Bucket
from holdfast.node.objects import Folder, LostError, Objects, open_objects

NOWHERE = "http://127.0.0.1:1/store"  # nothing listens there


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "file").write_bytes(b"content")
    return Folder(tmp_path)


@pytest.fixture
def bucket() -> Bucket:
    fsspec.filesystem("memory").pipe_file("/store/a/file", b"content")
    return Bucket("memory://store")


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda objects: objects.read("file/inner"), "can't read"),
        (lambda objects: objects.size("file/inner"), "can't read"),
        (lambda objects: objects.list("file"), "can't list"),
        (lambda objects: objects.remove("file/inner"), "can't remove"),
        (lambda objects: objects.sync("gone"), "can't write"),
    ],
)
def test_a_folder_names_what_it_can_not_do(
    folder: Folder, act: Callable[[Objects], object], said: str
) -> None:
    with pytest.raises(StorageError, match=rf"{said} {folder.address}/(file|gone)"):
        act(folder)
    assert folder.read("file") == b"content"


def test_a_folder_whose_lock_can_not_be_made_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(InputError, match=f"can't write in {tmp_path}: Is a directory"):
        Folder(tmp_path).claim()


def test_what_is_gone_from_a_bucket_is_none_and_can_be_removed_again(bucket: Bucket) -> None:
    assert (bucket.read("a/file"), bucket.size("a/file")) == (b"content", 7)
    bucket.check()
    assert [listed.name for listed in bucket.list("a")] == ["file"]
    bucket.remove("a")
    bucket.remove("a")
    assert (bucket.read("a/file"), bucket.size("a/file"), bucket.list("a")) == (None, None, [])


def test_spans_that_a_bucket_lost_are_told_from_one_that_fails(bucket: Bucket) -> None:
    assert bucket.read_spans([("a/file", [(0, 3), (5, 2)])]) == [b"con", b"nt"]
    with pytest.raises(LostError, match="a/file ends before byte 9"):
        bucket.read_spans([("a/file", [(0, 9)])])
    with pytest.raises(LostError, match="an object is gone from memory://store"):
        bucket.read_spans([("a/other", [(0, 1)])])


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda objects: objects.read("name"), "can't read"),
        (lambda objects: objects.read_spans([("name", [(0, 1)])]), "can't read"),
        (lambda objects: objects.list("name"), "can't list"),
        (lambda objects: objects.remove("name"), "can't remove"),
    ],
)
def test_a_bucket_that_can_not_be_reached_is_named_with_the_object(
    act: Callable[[Objects], object], said: str
) -> None:
    with pytest.raises(StorageError, match=f"{said} {NOWHERE}/name"):
        act(open_objects(NOWHERE))


def test_a_bucket_that_can_not_be_reached_is_refused_before_it_is_read() -> None:
    with pytest.raises(InputError, match=f"can't list {NOWHERE}"):
        open_objects(NOWHERE).check()
