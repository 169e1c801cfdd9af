"""Named objects, written whole: in a folder of this machine, or behind an fsspec address.

An object is there with all its bytes or not at all, whatever interrupts its writing. A folder has
one node at a time, which a lock sees to; a bucket has no such lock.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from time import perf_counter
from typing import Protocol

from holdfast import atomic
from holdfast.errors import InputError, StorageError
from holdfast.pdp.readers import LocalFile, Range, is_slow

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


@dataclass(frozen=True)
class StoredObject:
    """An object as a listing shows it; its stamp is another one after it was written again."""

    name: str
    size: int
    stamp: str  # an ETag, or the time of the last write
    regular: bool = True  # else it is a link, a device or the like, which is not read


StoredObjects = list[StoredObject]


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

    @property
    def files_at_once(self) -> int:
        """Of how many objects ranges are best asked for side by side."""
        ...

    @property
    def has_folders(self) -> bool:
        """Whether it consists of folders, of which one may be empty because nothing is mounted."""
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

    def look_up(self, name: str) -> StoredObject | None:
        """Return an object as a listing would show it, or nothing if there is none."""

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

    def walk(self) -> StoredObjects:
        """Return all objects, with those of every prefix. Raise if some can't be listed."""
        ...

    def remove(self, prefix: str) -> None:
        """Remove an object, or all under a prefix. It may be gone already."""


def open_objects(address: str) -> "Objects":
    address = address.removeprefix("file://")
    if "://" not in address:
        return Folder(Path(address))
    from holdfast.node.bucket import Bucket  # noqa: PLC0415 - which imports this module

    return Bucket(address)


class Folder:
    """Objects as files of this machine."""

    batch_bytes, gap_bytes = LocalFile.batch_bytes, LocalFile.gap_bytes
    files_at_once, has_folders = 1, True

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

    def look_up(self, name: str) -> StoredObject | None:
        try:
            return _stored_object(name, self._path(name).lstat())
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

    def walk(self) -> StoredObjects:
        objects: StoredObjects = []
        folders = [""]
        while folders:
            prefix = folders.pop()
            try:
                with os.scandir(self._path(prefix)) as entries:
                    for entry in entries:
                        name = f"{prefix}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(f"{name}/")
                        else:
                            objects.append(_stored_object(name, entry.stat(follow_symlinks=False)))
            except FileNotFoundError:
                if not prefix:
                    raise StorageError(f"there is no folder {self.address}") from None
            except OSError as error:
                raise self._failed("list", prefix, error) from error
        return objects

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


def _write_all(file: RawIOBase, piece: bytes | memoryview) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _stored_object(name: str, status: os.stat_result) -> StoredObject:
    regular = stat.S_ISREG(status.st_mode)
    return StoredObject(name, status.st_size, str(status.st_mtime_ns), regular)
