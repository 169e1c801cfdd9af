"""Readers of byte ranges: a local file, or anything that fsspec reaches.

A reader promises the exact range or a `StorageError`; it never returns less.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError, StorageError
from holdfast.pdp.limbs import Bytes

Range = tuple[int, int]  # offset, length
Part = bytes | memoryview
LOCAL_BATCH = 512 << 10  # memory that fits the cache: with 2 MiB a proof took a tenth longer
LOCAL_GAP = 8 << 10  # bytes that are copied in the time of one more call
RANGES_AT_ONCE = 16  # read before we look whether they come from a disk
SLOW_READ_SECONDS = 20e-6  # longer than a range takes from the page cache, shorter than from a disk


class Reader(Protocol):
    """Anything that gives exact byte ranges."""

    @property
    def name(self) -> str: ...

    @property
    def batch_bytes(self) -> int:
        """How much is best asked for in one call."""
        ...

    @property
    def gap_bytes(self) -> int:
        """Up to how many bytes between two ranges are better read than passed over."""
        ...

    def size(self) -> int: ...

    def read_many(self, ranges: Sequence[Range]) -> Sequence[Part]: ...


class OpenReader(Reader, AbstractContextManager["OpenReader"], Protocol):
    """A reader that holds something open until it is left."""


class ReaderWrapper:
    """A reader around another one, which it opens and closes with itself."""

    def __init__(self, reader: OpenReader) -> None:
        self._reader = reader
        self.name = reader.name
        self.batch_bytes, self.gap_bytes = reader.batch_bytes, reader.gap_bytes

    def __enter__(self) -> Self:
        self._reader.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__(None, None, None)

    def size(self) -> int:
        return self._reader.size()


class Source(Protocol):
    """Where bytes can be had, as often as needed. Can be handed to another process."""

    @property
    def address(self) -> str: ...

    def open(self) -> OpenReader: ...


@dataclass(frozen=True)
class Location:
    """Where bytes lie: a path or an fsspec address."""

    address: str

    @property
    def is_remote(self) -> bool:
        return "://" in self.address

    def open(self) -> "OpenReader":
        return RemoteFile(self.address) if self.is_remote else LocalFile(Path(self.address))


class LocalFile:
    """A file of this machine, read at offsets without a shared position."""

    batch_bytes, gap_bytes = LOCAL_BATCH, LOCAL_GAP

    def __init__(self, path: Path | str) -> None:
        self.name = str(path)
        try:
            # A named pipe without a writer would keep us waiting here for ever.
            self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise InputError(f"can't read {path}: {error.strerror}") from error
        except ValueError as error:  # a NUL in it, or no text of any encoding
            raise InputError(f"can't read {str(path)!r}: no file can have that name") from error
        status = os.fstat(self._handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._handle)
            raise InputError(f"can't read {path}: it is not a regular file")
        self._size = status.st_size
        if not self._size and os.pread(self._handle, 1, 0):  # as those of /proc
            os.close(self._handle)
            raise InputError(f"can't read {path}: it has content, but its size is 0: copy it first")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def size(self) -> int:
        return self._size

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        parts: list[bytes] = []
        at_once = 1
        while len(parts) < len(ranges):
            began = perf_counter()
            parts += self._read(ranges[len(parts) : len(parts) + at_once])
            slow = is_slow(began, at_once)
            at_once = RANGES_AT_ONCE
            if slow and len(parts) < len(ranges):
                self.prefetch(ranges[len(parts) :])
                at_once = len(ranges)
        return parts

    def prefetch(self, ranges: Sequence[Range]) -> None:
        """Let the kernel fetch these ranges side by side, where they are not in memory."""
        if not hasattr(os, "posix_fadvise"):
            return
        with suppress(OSError):  # not every file system takes the advice
            for offset, length in ranges:
                os.posix_fadvise(self._handle, offset, length, os.POSIX_FADV_WILLNEED)

    def _read(self, ranges: Sequence[Range]) -> list[bytes]:
        handle, pread = self._handle, os.pread
        try:
            parts = [pread(handle, length, offset) for offset, length in ranges]
            if _complete(parts, ranges):
                return parts
            for k, (offset, length) in enumerate(ranges):
                while len(parts[k]) < length:  # one call returns at most 2 GiB
                    done = len(parts[k])
                    more = pread(handle, length - done, offset + done)
                    if not more:
                        raise StorageError(f"{self.name} ends before byte {offset + length}")
                    parts[k] += more
        except OSError as error:
            raise StorageError(f"can't read {self.name}: {error.strerror}") from error
        return parts


class RemoteFile:
    """A file behind an fsspec address; the ranges of one call are fetched at once."""

    batch_bytes, gap_bytes = 8 << 20, 0

    def __init__(self, address: str) -> None:
        import fsspec  # noqa: PLC0415 - a tenth of the start of a command that reads local files

        self.name = address
        try:
            self._system, self._path = fsspec.url_to_fs(address)
            self._size = int(self._system.size(self._path))
        except FileNotFoundError as error:
            raise InputError(f"can't read {address}: no such file") from error
        except Exception as error:  # fsspec's back ends raise whatever their libraries do
            raise InputError(f"can't read {address}: {type(error).__name__}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def size(self) -> int:
        return self._size

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        starts = [offset for offset, _ in ranges]
        ends = [offset + length for offset, length in ranges]
        paths = [self._path] * len(ranges)
        try:
            parts: list[Any] = self._system.cat_ranges(paths, starts, ends, on_error="raise")
        except Exception as error:  # as above
            raise StorageError(
                f"can't read {self.name}: {type(error).__name__}: {error}"
            ) from error
        for part, (offset, length) in zip(parts, ranges, strict=True):
            if len(part) != length:
                raise StorageError(f"{self.name} ends before byte {offset + length}")
        return parts


@dataclass(frozen=True)
class Memory:
    """Bytes in memory."""

    content: bytes
    name: str = "memory"
    batch_bytes: int = LOCAL_BATCH
    gap_bytes: int = 0

    def size(self) -> int:
        return len(self.content)

    def read_many(self, ranges: Sequence[Range]) -> Sequence[Part]:
        view = memoryview(self.content)
        parts = [view[offset : offset + length] for offset, length in ranges]
        if not _complete(parts, ranges):
            raise StorageError(f"{self.name} ends before what was asked of it")
        return parts


def is_slow(began: float, ranges: int) -> bool:
    """Return whether reading that many ranges since `began` took so long that a disk was asked."""
    return perf_counter() - began > ranges * SLOW_READ_SECONDS


def read_rows(
    reader: Reader, numbers: NDArray[np.int64], size: int, *, origin: int, end: int
) -> Bytes:
    """Return rows of `size` bytes with these ascending numbers, row 0 beginning at `origin`.

    Rows that are near each other are read together. If what lies between them can't be read, each
    is read by itself. Zeros stand for what the last row lacks at the `end` of the file.
    """
    try:
        return _read_runs(reader, numbers, size, origin, end, reader.gap_bytes // size)
    except StorageError:
        return _read_runs(reader, numbers, size, origin, end, 0)


def _read_runs(
    reader: Reader, numbers: NDArray[np.int64], size: int, origin: int, end: int, gap: int
) -> Bytes:
    """Read rows in runs; between two rows of a run at most `gap` others lie."""
    borders = np.flatnonzero(np.diff(numbers) > gap + 1) + 1
    first = numbers[np.concatenate([[0], borders])]
    counts = numbers[np.concatenate([borders - 1, [-1]])] - first + 1
    offsets, lengths = origin + first * size, counts * size
    missing = max(0, int(offsets[-1] + lengths[-1]) - end)
    lengths[-1] -= missing
    parts = reader.read_many(list(zip(offsets.tolist(), lengths.tolist(), strict=True)))
    content = b"".join([*parts, bytes(missing)]) if len(parts) > 1 or missing else parts[0]
    rows: Bytes = np.frombuffer(content, np.uint8).reshape(-1, size)
    if len(rows) == len(numbers):
        return rows
    before = np.cumsum(counts) - counts  # rows of earlier runs
    shifts = np.repeat(first - before, np.diff(np.concatenate([[0], borders, [len(numbers)]])))
    taken: Bytes = rows.take(numbers - shifts, axis=0)
    return taken


def _complete(parts: Sequence[Part], ranges: Sequence[Range]) -> bool:
    """Return whether no part is short. None is ever too long."""
    wanted: int = sum(length for _, length in ranges)
    return sum(map(len, parts)) == wanted
