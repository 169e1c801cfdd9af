"""The length and digests of a source at one time, so that no other bytes are sent for it."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from holdfast.errors import StorageError
from holdfast.node.lanes import lanes
from holdfast.node.segments import SEGMENT_BYTES, combine_digests, count_segments, segment_range
from holdfast.pdp import Location
from holdfast.pdp.readers import OpenReader, Part, Range, ReaderWrapper, Source

Progress = Callable[[int], None]


class ChangedError(StorageError):
    """A file changed while it was being put."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} changed while it was being put: try again")


@dataclass(frozen=True)
class Content:
    """`segments` are the SHA-256 of the segments of `segment_bytes`; the last may be shorter."""

    length: int
    sha256: bytes
    segment_bytes: int
    segments: tuple[bytes, ...]

    @property
    def digest(self) -> bytes:
        """The digest by which a node knows the content."""
        return combine_digests(self.segments)


@dataclass(frozen=True)
class MeasuredSource:
    """A source that gives the measured content segment by segment, and no other."""

    source: Source
    content: Content

    @property
    def address(self) -> str:
        return self.source.address

    def open(self) -> OpenReader:
        return MeasuredReader(self.source.open(), self.content)


class MeasuredReader(ReaderWrapper):
    def __init__(self, reader: OpenReader, content: Content) -> None:
        super().__init__(reader)
        self.content = content
        self.batch_bytes, self.gap_bytes = content.segment_bytes, 0

    def size(self) -> int:
        return self.content.length

    def read_many(self, ranges: Sequence[Range]) -> Sequence[Part]:
        parts = self._reader.read_many(ranges)
        for (offset, _), part in zip(ranges, parts, strict=True):
            number = offset // self.content.segment_bytes
            if hashlib.sha256(part).digest() != self.content.segments[number]:
                raise ChangedError(self.name)
        return parts


def measure(
    source: Source, segment_bytes: int, on_progress: Progress = lambda _bytes: None
) -> Content:
    """Read the source once; `on_progress` gets how many bytes are done so far."""
    whole = hashlib.sha256()
    segments = []
    with source.open() as reader:
        length = reader.size()

        def read(number: int) -> tuple[Part, bytes]:
            (part,) = reader.read_many([segment_range(number, length, segment_bytes)])
            return part, hashlib.sha256(part).digest()

        # The whole is hashed here and its segments in the lanes: hashing needs no lock of Python's.
        with lanes(read, range(count_segments(length, segment_bytes))) as parts:
            done = 0
            for part, segment in parts:
                whole.update(part)
                segments.append(segment)
                done += len(part)
                on_progress(done)
    return Content(length, whole.digest(), segment_bytes, tuple(segments))


@dataclass(frozen=True)
class Original:
    """The owner's own copy of a file, as it was when it was measured."""

    source: Location
    content: Content
    state: tuple[int, ...]

    @classmethod
    def of(cls, source: Location, segment_bytes: int = SEGMENT_BYTES) -> Self:
        with source.open():  # an unreadable file raises a clearer error here
            state = _state(source)
        return cls(source, measure(source, segment_bytes), state)

    @property
    def absolute_source(self) -> str:
        """Where it lies: an absolute path, or an address such as s3://bucket/key."""
        return absolute_source(self.source)

    def in_segments(self, segment_bytes: int) -> Content:
        """Return the same content measured in other segments, or raise if it is not the same."""
        if self.content.segment_bytes == segment_bytes:
            return self.content
        return self.measure_again(segment_bytes)

    def measure_again(self, segment_bytes: int = SEGMENT_BYTES) -> Content:
        """Read the file once more, and raise if its content is another now."""
        content = measure(self.source, segment_bytes)
        if content.sha256 != self.content.sha256:
            raise ChangedError(self.source.address)
        return content

    def check(self) -> None:
        """Raise if the file was written to since: what was read of it may be of two contents."""
        if _state(self.source) != self.state:
            raise ChangedError(self.source.address)


def absolute_source(source: Location) -> str:
    """Return where a source lies, by the one path or address that the catalogue has of it."""
    # Path.absolute() keeps "..", so that one file would have several paths.
    return source.address if source.is_remote else os.path.abspath(source.address)  # noqa: PTH100


def _state(source: Location) -> tuple[int, ...]:
    if source.is_remote:
        with source.open() as reader:
            return (reader.size(),)
    status = os.stat(source.address)  # noqa: PTH116 - the name may be of any bytes
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
