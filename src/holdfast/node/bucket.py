"""Objects behind an fsspec address, such as s3://bucket/prefix."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.errors import InputError, StorageError
from holdfast.node.fetching import Fetcher, ObjectRange, RangeError, fetcher_of
from holdfast.node.objects import Listed, LostError, Spans, StoredObject, StoredObjects
from holdfast.pdp.readers import RemoteFile
from holdfast.remote_systems import gives_ranges, is_beyond_end, lists_all, open_system

Entry = dict[str, Any]  # what fsspec says of an object or a folder
Entries = list[Entry]
GAP_BYTES = 4096  # which cost as much as one more request, where both are paid for
_PROBE = ".probe"
_STAMPS = ("ETag", "etag", "md5Hash", "content_md5", "checksum")
_TIMES = ("LastModified", "mtime", "last_modified", "modified", "created")


class Bucket:
    """Objects behind an fsspec address. Nothing keeps another node from writing there."""

    batch_bytes, gap_bytes = RemoteFile.batch_bytes, GAP_BYTES

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        try:
            self._system, root = open_system(self.address)
        except Exception as error:  # fsspec's back ends raise whatever their libraries do
            raise InputError(f"can't use {address}: {_words(error)}") from error
        self._root = root.rstrip("/")
        self._fetcher: Fetcher = fetcher_of(self._system, lambda: open_system(self.address)[0])

    @property
    def files_at_once(self) -> int:
        return self._fetcher.at_once

    @property
    def has_folders(self) -> bool:
        """Whether it consists of folders, of which one may be empty because nothing is mounted."""
        return not lists_all(self._system)

    def check(self) -> None:
        try:
            self.list("")
        except StorageError as error:
            raise InputError(str(error)) from error

    def claim(self) -> None:
        """Find out now whether we may write."""
        try:
            self.write(_PROBE, b"")
            self.remove(_PROBE)
        except StorageError as error:
            raise InputError(str(error)) from error

    def release(self) -> None:
        pass

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._fetcher.call("cat_file", self._path(name)))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed("read", name, error) from error

    def read_spans(self, spans: Sequence[Spans]) -> "list[bytes]":
        names = [name for name, ranges in spans for _ in ranges]
        asked = [
            ObjectRange(self._path(name), offset, offset + length)
            for name, ranges in spans
            for offset, length in ranges
        ]
        try:
            parts = self._fetcher.fetch(asked)
        except RangeError as error:
            raise self._range_failed(error) from error.__cause__
        except TimeoutError as error:
            raise self._failed("read", names[0], error) from error
        for part, name, wanted in zip(parts, names, asked, strict=True):
            if len(part) > wanted.stop - wanted.start:
                raise StorageError(
                    f"{self.address} can't be read in ranges: its library ignores them"
                )
            if len(part) < wanted.stop - wanted.start:
                raise self._too_short(name, wanted)
        return parts

    def _too_short(self, name: str, wanted: ObjectRange) -> StorageError:
        """Return what an answer with fewer bytes than were asked for says about an object."""
        try:
            if not gives_ranges(self._system, wanted.path, self._fetcher.call):
                return StorageError(f"{self.address} answers with what is no part of {name}")
        except FileNotFoundError:
            return LostError(f"an object is gone from {self.address}: {name}")
        except Exception as error:  # noqa: BLE001 - whatever a library raises
            return self._failed("read", name, error)
        return LostError(f"{self.address}/{name} ends before byte {wanted.stop}")

    def size(self, name: str) -> int | None:
        try:
            return int(self._fetcher.call("info", self._path(name))["size"])
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed("read", name, error) from error

    def look_up(self, name: str) -> StoredObject | None:
        try:
            entry = self._fetcher.call("info", self._path(name))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed("read", name, error) from error
        return StoredObject(name, int(entry["size"]), _stamp(entry), entry["type"] == "file")

    def write(self, name: str, content: bytes | bytearray) -> None:
        try:
            self._make_parent(name)
            self._fetcher.call("pipe_file", self._path(name), bytes(content))
        except Exception as error:
            raise self._failed("write", name, error) from error

    def upload(self, name: str, path: Path) -> None:
        """Write an object from a file of this machine."""
        try:
            self._make_parent(name)
            self._fetcher.call("put_file", str(path), self._path(name))
        except Exception as error:
            raise self._failed("write", name, error) from error

    def write_pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        self.write(name, b"".join(pieces))

    def sync(self, prefix: str) -> None:
        pass

    def list(self, prefix: str) -> "list[Listed]":
        path = self._path(prefix)
        try:
            entries = self._ls(path)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._failed("list", prefix, error) from error
        return sorted(
            (
                Listed(
                    entry["name"].rstrip("/").rpartition("/")[2],
                    _modified(entry),
                    entry["type"] == "directory",
                )
                for entry in entries
                if entry["name"].strip("/") != path.strip("/")
            ),
            key=lambda entry: entry.name,
        )

    def walk(self) -> StoredObjects:
        try:
            entries = self._find() if lists_all(self._system) else self._descend()
        except FileNotFoundError as error:
            raise StorageError(f"there is nothing at {self.address}: {_words(error)}") from error
        except Exception as error:
            raise self._failed("list", "", error) from error
        start = len(self._root.strip("/")) + 1
        return [
            StoredObject(
                entry["name"].lstrip("/")[start:],
                int(entry.get("size") or 0),
                _stamp(entry),
                entry["type"] == "file",
            )
            for entry in entries
            if len(entry["name"].lstrip("/")) > start
        ]

    def _find(self) -> Entries:
        """Return all objects by listings that go through every prefix."""
        found: dict[str, Entry] = self._fetcher.call("find", self._root, detail=True)
        return list(found.values())

    def _descend(self) -> Entries:
        """Return all objects by a listing for each folder. The first error is raised."""
        objects: Entries = []
        folders = [self._root or "/"]
        while folders:
            folder = folders.pop()
            for entry in self._ls(folder):
                if entry["type"] != "directory":
                    objects.append(entry)
                elif entry["name"].strip("/") != folder.strip("/"):
                    folders.append(entry["name"])
        return objects

    def _ls(self, path: str) -> Entries:
        entries: Entries = self._fetcher.call("ls", path, detail=True)
        return entries

    def remove(self, prefix: str) -> None:
        try:
            self._fetcher.call("rm", self._path(prefix), recursive=True)
        except FileNotFoundError:
            pass
        except Exception as error:
            raise self._failed("remove", prefix, error) from error

    def holds(self, name: str) -> bool:
        return ".." not in name.split("/")

    def _make_parent(self, name: str) -> None:
        """Make the folders that an object is written in, where there are folders."""
        if self.has_folders:
            parent = self._path(name).rpartition("/")[0]
            self._fetcher.call("makedirs", parent, exist_ok=True)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _range_failed(self, error: RangeError) -> StorageError:
        name = error.wanted.path.removeprefix(self._root).lstrip("/")
        cause = error.__cause__
        if isinstance(cause, FileNotFoundError):
            return LostError(f"an object is gone from {self.address}: {name}")
        if is_beyond_end(cause):
            return LostError(f"{self.address}/{name} ends before byte {error.wanted.stop}")
        return self._failed("read", name, cause)

    def _failed(self, what: str, name: str, error: BaseException | None) -> StorageError:
        place = f"{self.address}/{name}" if name else self.address
        return StorageError(f"can't {what} {place}: {_words(error)}")


def _words(error: BaseException | None) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}"


def _stamp(entry: Entry) -> str:
    """Return what is another one after an object was written again."""
    for field in _STAMPS:
        if value := entry.get(field):
            return str(value).strip('"')
    return repr(_modified(entry))


def _modified(entry: Entry) -> float:
    """Return when an object was written, by whichever name its back end has for it."""
    for field in _TIMES:
        value = entry.get(field)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return 0.0
