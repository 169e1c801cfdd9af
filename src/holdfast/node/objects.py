"""Named objects, written whole: in a folder of this machine, or behind an fsspec address.

An object is there with all its bytes or not at all, whatever interrupts its writing. A folder has
one node at a time, which a lock sees to; a bucket has no such lock.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from io import RawIOBase
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from holdfast import atomic
from holdfast.errors import InputError, StorageError
from holdfast.pdp.readers import LocalFile, Range, RemoteFile, is_slow

Spans = tuple[str, list[Range]]  # ranges of the object of that name
OPENING_SECONDS = 20e-6  # of a file
_LOCK, _DRAFTS, _PROBE = ".lock", ".drafts", ".probe"


class LostError(StorageError):
    """An object that was written is gone, or is shorter than it was."""


@dataclass(frozen=True)
class Listed:
    """What lies directly under a prefix: an object, or a prefix of further ones."""

    name: str
    modified: float
    is_prefix: bool


class Objects(Protocol):
    """Where a node keeps bytes, or reads those that it does not keep."""

    @property
    def address(self) -> str: ...

    @property
    def batch_bytes(self) -> int:
        """How much is best asked for in one call."""
        ...

    @property
    def gap_bytes(self) -> int:
        """Up to how many bytes between two ranges are better read than passed over."""
        ...

    def check(self) -> None:
        """Raise if nothing can be read there."""

    def claim(self) -> None:
        """Make ready for writing, by this process alone."""

    def release(self) -> None: ...

    def read(self, name: str) -> bytes | None:
        """Return the whole object, or nothing if there is none."""

    def read_spans(self, spans: Sequence[Spans]) -> list[bytes]:
        """Return exact ranges, those of all objects one after another."""
        ...

    def size(self, name: str) -> int | None: ...

    def holds(self, name: str) -> bool:
        """Return whether the name stays within, even if links are followed."""
        ...

    def write(self, name: str, content: bytes | bytearray) -> None: ...

    def write_pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write an object while its bytes arrive. If `pieces` raises, there is no such object.

        Whether it outlasts a loss of power is certain only after `sync`.
        """

    def sync(self, prefix: str) -> None:
        """Make sure that the objects directly under a prefix outlast a loss of power."""

    def list(self, prefix: str) -> "list[Listed]": ...

    def remove(self, prefix: str) -> None:
        """Remove an object, or all under a prefix. It may be gone already."""


def open_objects(address: str) -> "Objects":
    address = address.removeprefix("file://")
    return Bucket(address) if "://" in address else Folder(Path(address))


class Folder:
    """Objects as files of this machine."""

    batch_bytes, gap_bytes = LocalFile.batch_bytes, LocalFile.gap_bytes

    def __init__(self, root: Path) -> None:
        self.address = str(root)
        self._root = root.resolve()
        self._drafts = self._root / _DRAFTS
        self._claimed = ExitStack()

    def check(self) -> None:
        if not os.access(self._root, os.R_OK | os.X_OK) or not self._root.is_dir():
            raise InputError(f"can't read {self.address}: it is no folder that we may read")

    def claim(self) -> None:
        atomic.make_directory(self._drafts)
        try:
            lock = self._claimed.enter_context((self._root / _LOCK).open("wb"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise InputError(f"another node runs on {self.address}: stop it first") from error
        except OSError as error:
            raise InputError(f"can't write in {self.address}: {error.strerror}") from error
        for draft in self._drafts.iterdir():
            draft.unlink()

    def release(self) -> None:
        self._claimed.close()

    def read(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", name, error) from error

    def read_spans(self, spans: Sequence[Spans]) -> list[bytes]:
        # Every call opens the file, which takes 10 us: to keep a thousand segments open would take
        # more handles than a process has.
        parts: list[bytes] = []
        prefetched = False
        for k, (name, ranges) in enumerate(spans):
            began = perf_counter()
            try:
                with LocalFile(f"{self._root}/{name}") as file:
                    parts += file.read_many(ranges)
            except (InputError, StorageError) as error:
                raise LostError(str(error)) from error
            if not prefetched and is_slow(began + OPENING_SECONDS, len(ranges)):
                self._prefetch(spans[k + 1 :])
                prefetched = True
        return parts

    def _prefetch(self, spans: Sequence[Spans]) -> None:
        """Let the kernel fetch the ranges of all these objects side by side."""
        for name, ranges in spans:
            with suppress(InputError), LocalFile(f"{self._root}/{name}") as file:
                file.prefetch(ranges)

    def size(self, name: str) -> int | None:
        try:
            return self._path(name).stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", name, error) from error

    def write(self, name: str, content: bytes | bytearray) -> None:
        path = self._path(name)
        atomic.make_directory(path.parent)
        atomic.write(path, content, drafts=self._drafts)

    def write_pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        path = self._path(name)
        atomic.make_directory(path.parent)
        with (
            atomic.replacing(path, drafts=self._drafts, sync_folder=False) as draft,
            draft.open("wb", buffering=0) as file,
        ):
            for piece in pieces:
                _write_all(file, piece)

    def sync(self, prefix: str) -> None:
        try:
            atomic.sync(self._path(prefix))
        except OSError as error:
            raise self._failed("write", prefix, error) from error

    def list(self, prefix: str) -> "list[Listed]":
        try:
            with os.scandir(self._path(prefix)) as entries:
                return sorted(
                    (
                        Listed(entry.name, entry.stat().st_mtime, entry.is_dir())
                        for entry in entries
                        if not entry.name.startswith(".")
                    ),
                    key=lambda entry: entry.name,
                )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failed("list", prefix, error) from error

    def remove(self, prefix: str) -> None:
        path = self._path(prefix)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise self._failed("remove", prefix, error) from error

    def holds(self, name: str) -> bool:
        return self._path(name).resolve().is_relative_to(self._root)

    def _path(self, name: str) -> Path:
        return self._root / name

    def _failed(self, what: str, name: str, error: OSError) -> StorageError:
        return StorageError(f"can't {what} {self.address}/{name}: {error.strerror}")


class Bucket:
    """Objects behind an fsspec address, such as s3://bucket/prefix."""

    batch_bytes, gap_bytes = RemoteFile.batch_bytes, RemoteFile.gap_bytes

    def __init__(self, address: str) -> None:
        import fsspec  # noqa: PLC0415 - a tenth of the start of a command that reads local files

        self.address = address.rstrip("/")
        try:
            self._system, root = fsspec.url_to_fs(self.address, use_listings_cache=False)
        except Exception as error:  # fsspec's back ends raise whatever their libraries do
            raise InputError(f"can't use {address}: {type(error).__name__}: {error}") from error
        self._root = root.rstrip("/")

    def check(self) -> None:
        try:
            self.list("")
        except StorageError as error:
            raise InputError(str(error)) from error

    def claim(self) -> None:
        """Find out now whether we may write. Nothing keeps another node away."""
        try:
            self.write(_PROBE, b"")
            self.remove(_PROBE)
        except StorageError as error:
            raise InputError(str(error)) from error

    def release(self) -> None:
        pass

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._system.cat_file(self._path(name)))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed("read", name, error) from error

    def read_spans(self, spans: Sequence[Spans]) -> "list[bytes]":
        asked = [(name, offset, length) for name, ranges in spans for offset, length in ranges]
        paths = [self._path(name) for name, _, _ in asked]
        starts = [offset for _, offset, _ in asked]
        ends = [offset + length for _, offset, length in asked]
        try:
            parts: list[Any] = self._system.cat_ranges(paths, starts, ends, on_error="raise")
        except FileNotFoundError as error:
            raise LostError(f"an object is gone from {self.address}: {error}") from error
        except Exception as error:
            raise self._failed("read", spans[0][0], error) from error
        for part, (name, offset, length) in zip(parts, asked, strict=True):
            if len(part) != length:
                raise LostError(f"{self.address}/{name} ends before byte {offset + length}")
        return parts

    def size(self, name: str) -> int | None:
        try:
            return int(self._system.size(self._path(name)))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed("read", name, error) from error

    def write(self, name: str, content: bytes | bytearray) -> None:
        try:
            self._system.pipe_file(self._path(name), bytes(content))
        except Exception as error:
            raise self._failed("write", name, error) from error

    def write_pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        self.write(name, b"".join(pieces))

    def sync(self, prefix: str) -> None:
        pass

    def list(self, prefix: str) -> "list[Listed]":
        path = self._path(prefix)
        try:
            entries = self._system.ls(path, detail=True)
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

    def remove(self, prefix: str) -> None:
        try:
            self._system.rm(self._path(prefix), recursive=True)
        except FileNotFoundError:
            pass
        except Exception as error:
            raise self._failed("remove", prefix, error) from error

    def holds(self, name: str) -> bool:
        return ".." not in name.split("/")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _failed(self, what: str, name: str, error: Exception) -> StorageError:
        return StorageError(f"can't {what} {self.address}/{name}: {type(error).__name__}: {error}")


def _write_all(file: RawIOBase, piece: bytes | memoryview) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _modified(entry: dict[str, Any]) -> float:
    """Return when an object was written, by whichever name its back end has for it."""
    for field in ("LastModified", "mtime", "last_modified", "created"):
        value = entry.get(field)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return 0.0
