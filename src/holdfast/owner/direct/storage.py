"""The data of a direct holding: read, never written, with losses told from outages.

What is lost comes as zeros, so that a proof over it fails and other blocks can still be read. It is
lost only if the storage itself says so: no such object, or a shorter one. A storage that does not
answer, refuses or is not mounted is unreachable.
"""

import errno
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import NoReturn, TypeVar

from holdfast.errors import InputError, StorageError, UnreachableError
from holdfast.node.daemon_pool import DaemonPool
from holdfast.node.objects import (
    Listed,
    LostError,
    Objects,
    Spans,
    StoredObject,
    StoredObjects,
    open_objects,
)
from holdfast.node.time_limit import seconds_left, within
from holdfast.owner.direct.address import TAGS_FOLDER, DirectAddress
from holdfast.pdp.readers import Range

T = TypeVar("T")

FOLDERS_AT_ONCE = 8  # files of a folder that are read side by side
MAX_WORDS = 300  # letters of a library's own message
_PLACES = re.compile(r"""["']?\w+://[^\s"']+["']?""")
MAX_LISTING_SECONDS = 600.0
PAGE_OBJECTS = 1000  # of a listing, in one request
WITNESSES = 3  # other objects that are read where a disk can't read one
_GONE = {errno.ENOENT, errno.ENOTDIR}
_BROKEN = {errno.EIO, errno.ENODATA, errno.EUCLEAN, errno.EBADMSG}  # of a disk, or of a lost mount


class DirectStorage:
    """Objects that are only read."""

    def __init__(self, address: DirectAddress) -> None:
        self.address = address.data
        self._objects: Objects | None = None
        self._pool = DaemonPool(FOLDERS_AT_ONCE)
        self._sizes: dict[str, int] | None = None  # at the last listing
        self._lost: set[str] = set()
        self._lock = Lock()
        self.read_bytes = self.requests = 0  # since it was opened

    @property
    def objects(self) -> Objects:
        """The storage itself, opened when it is first used."""
        if self._objects is None:
            try:
                self._objects = self._run(lambda: open_objects(self.address))
            except InputError as error:
                raise UnreachableError(str(error)) from error
        return self._objects

    @property
    def is_folder(self) -> bool:
        return "://" not in self.address

    @property
    def batch_bytes(self) -> int:
        return self.objects.batch_bytes

    @property
    def gap_bytes(self) -> int:
        return self.objects.gap_bytes

    @property
    def files_at_once(self) -> int:
        return FOLDERS_AT_ONCE if self.is_folder else self.objects.files_at_once

    @property
    def has_folders(self) -> bool:
        return self.objects.has_folders

    def walk(self) -> StoredObjects:
        """List all objects but the tags; what has become shorter or is gone reads as zeros then.

        An empty folder that had objects is unreachable: it may be that nothing is mounted there.
        """
        with within(min(seconds_left(), MAX_LISTING_SECONDS)):
            everything = self._call(lambda objects: objects.walk())
        self._count(pages=1 + len(everything) // PAGE_OBJECTS)
        if not everything and self.has_folders:
            raise UnreachableError(f"there is nothing at {self.address}: is it mounted?")
        listed = [found for found in everything if not _is_ours(found.name)]
        self._sizes = {found.name: found.size for found in listed}
        return listed

    def listed_size(self, name: str) -> int:
        """Return how many bytes an object had at the last listing, 0 if it was not there."""
        return (self._sizes or {}).get(name, 0)

    def confirm_gone(self, name: str) -> bool:
        """Return whether an object that a listing left out is really gone."""
        return self.look_up(name) is None

    def look_up(self, name: str) -> StoredObject | None:
        self._count(pages=1)
        found = self._call(lambda objects: objects.look_up(name))
        if self._sizes is not None:
            self._sizes[name] = found.size if found else 0
        return found

    def check(self) -> None:
        """Raise if nothing can be read there."""
        try:
            self._call(lambda objects: objects.check())
        except InputError as error:
            raise UnreachableError(str(error)) from error

    def pop_lost(self) -> set[str]:
        """Return the objects that were found lost since the last call."""
        with self._lock:
            lost, self._lost = self._lost, set()
        return lost

    def read_exactly(self, name: str, start: int, stop: int) -> bytes:
        """Return a range, or raise `LostError` if the object does not have it."""
        return self._read_there(name, [(start, stop - start)])[0]

    def read_spans(self, spans: Sequence[Spans]) -> list[bytes]:
        return [part for name, ranges in spans for part in self._read_object(name, ranges)]

    def size(self, name: str) -> int | None:
        self._count(pages=1)
        return self._call(lambda objects: objects.size(name))

    def holds(self, name: str) -> bool:
        return self.objects.holds(name)

    def read(self, name: str) -> bytes | None:
        return self._call(lambda objects: objects.read(name))

    def list(self, prefix: str) -> "list[Listed]":
        return self._call(lambda objects: objects.list(prefix))

    def claim(self) -> None:
        pass

    def release(self) -> None:
        pass

    def sync(self, prefix: str) -> None:
        pass

    def write(self, name: str, content: bytes | bytearray) -> None:  # noqa: ARG002
        self._refuse_writing(name)

    def write_pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:  # noqa: ARG002
        self._refuse_writing(name)

    def remove(self, prefix: str) -> None:
        self._refuse_writing(prefix)

    def _refuse_writing(self, name: str) -> NoReturn:
        raise StorageError(f"{self.address}/{name} is only read")

    def _read_object(self, name: str, ranges: Sequence[Range]) -> Sequence[bytes]:
        """Return ranges of one object, with zeros for what is lost."""
        there = [self._clip(name, wanted) for wanted in ranges]
        asked = [wanted for wanted in there if wanted[1]]
        try:
            parts = iter(self._read_there(name, asked) if asked else [])
        except LostError:
            self._note_lost(name)
            parts = iter([self._read_or_zeros(name, wanted) for wanted in asked])
        contents = [next(parts) if wanted[1] else b"" for wanted in there]
        if any(len(part) < length for part, (_, length) in zip(contents, ranges, strict=True)):
            self._note_lost(name)
        return [
            part.ljust(length, b"\0") for part, (_, length) in zip(contents, ranges, strict=True)
        ]

    def _clip(self, name: str, wanted: Range) -> Range:
        """Return the part of a range that the object still has, by the last listing."""
        offset, length = wanted
        if self._sizes is None:
            return wanted
        return offset, max(min(length, self._sizes.get(name, 0) - offset), 0)

    def _read_there(self, name: str, ranges: Sequence[Range]) -> Sequence[bytes]:
        """Return ranges of one object, or raise `LostError` if that is certain."""
        self._count(ranges)
        try:
            return self._read_ranges(name, ranges)
        except LostError as error:
            number = _errno(error)
            certain = number is None or number in _GONE
            if certain or (number in _BROKEN and self._reads_others(name)):
                raise
            raise self._unreachable(error) from error

    def _read_ranges(self, name: str, ranges: Sequence[Range]) -> Sequence[bytes]:
        return self._call(lambda objects: objects.read_spans([(name, list(ranges))]))

    def _reads_others(self, name: str) -> bool:
        """Return whether other objects can be read: else the whole storage may be gone."""
        sizes = self._sizes or {}
        others = [other for other, size in sizes.items() if size and other != name]
        for other in secrets.SystemRandom().sample(others, min(WITNESSES, len(others))):
            with suppress(LostError, UnreachableError):
                self._read_ranges(other, [(sizes[other] - 1, 1)])
                return True
        return False

    def _read_or_zeros(self, name: str, wanted: Range) -> bytes:
        try:
            return self._read_there(name, [wanted])[0]
        except LostError:
            return bytes(wanted[1])

    def _count(self, ranges: Sequence[Range] = (), pages: int = 0) -> None:
        with self._lock:
            self.requests += pages + len(ranges)
            self.read_bytes += sum(length for _, length in ranges)

    def _note_lost(self, name: str) -> None:
        with self._lock:
            self._lost.add(name)

    def _call(self, work: Callable[[Objects], T]) -> T:
        """Return what `work` returns, which is given the storage, opened before."""
        return self._run(partial(work, self.objects))

    def _run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; raise `UnreachableError` where it fails for no loss."""
        try:
            # A remote storage keeps to the time by itself. A folder may be a share that hangs.
            return self._pool.call(work) if self.is_folder else work()
        except LostError:
            raise
        except (StorageError, TimeoutError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> UnreachableError:
        """Return the error in words that name no object: they come into the evidence."""
        return UnreachableError(f"can't read {self.address}: {_words(error)}")


def _is_ours(name: str) -> bool:
    return name == TAGS_FOLDER or name.startswith(f"{TAGS_FOLDER}/")


def _words(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    words = _PLACES.sub("…", str(error))[:MAX_WORDS]
    return words if isinstance(error, StorageError) else f"{type(error).__name__}: {words}"


def _errno(error: BaseException | None) -> int | None:
    """Return the number of the system's error that caused this one, if one did."""
    while error is not None:
        if isinstance(error, OSError):
            return error.errno
        error = error.__cause__
    return None
