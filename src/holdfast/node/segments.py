"""Bytes stored as segments: one object per segment, all of equal length but the last.

The digest of such bytes is the SHA-256 of the SHA-256 of their segments, one after another: each
segment is hashed when it arrives, and none is read again to know the digest of all.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from holdfast.node.objects import Objects, Spans
from holdfast.pdp.readers import Range, Reader

SEGMENT_BYTES = 8 << 20
MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES = 1000, 64 << 20
MAX_SEGMENTS = 1 << 20  # of one file: twice as many as the longest one has at 8 MiB


def count_segments(length: int, segment_bytes: int = SEGMENT_BYTES) -> int:
    return -(-length // segment_bytes)


def segment_range(number: int, length: int, segment_bytes: int = SEGMENT_BYTES) -> Range:
    """Return where a segment begins and how many bytes it has."""
    start = number * segment_bytes
    return start, min(segment_bytes, length - start)


def hash_segment(reader: Reader, number: int, segment_bytes: int) -> bytes:
    """Return the SHA-256 of a segment."""
    (content,) = reader.read_many([segment_range(number, reader.size(), segment_bytes)])
    return hashlib.sha256(content).digest()


def hash_segments(reader: Reader, segment_bytes: int) -> list[bytes]:
    count = count_segments(reader.size(), segment_bytes)
    return [hash_segment(reader, number, segment_bytes) for number in range(count)]


def combine_digests(segments: Iterable[bytes]) -> bytes:
    """Return the digest of all from the SHA-256 of each segment."""
    return hashlib.sha256(b"".join(segments)).digest()


@dataclass(frozen=True)
class SegmentedReader:
    """Reads ranges across segments, whose names `segment` knows."""

    objects: Objects
    name: str
    segment: Callable[[int], str]
    length: int
    segment_bytes: int = SEGMENT_BYTES

    @property
    def batch_bytes(self) -> int:
        return self.objects.batch_bytes

    @property
    def gap_bytes(self) -> int:
        return self.objects.gap_bytes

    def size(self) -> int:
        return self.length

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        spans: list[Spans] = []
        split: list[tuple[int, int]] = []  # which ranges lie in several segments, and in how many
        inside: list[Range] = []
        size, start = self.segment_bytes, -1  # of the segment in which the last range began
        for k, (offset, length) in enumerate(ranges):
            if not start <= offset < start + size or start < 0:
                start, inside = offset - offset % size, []
                spans.append((self.segment(offset // size), inside))
            if length and offset + length <= start + size:
                inside.append((offset - start, length))
                continue
            pieces = self._pieces(offset, length)
            split.append((k, len(pieces)))
            spans += pieces
            start = -1
        parts = self.objects.read_spans([span for span in spans if span[1]])
        for k, count in split:
            parts[k : k + count] = [b"".join(parts[k : k + count])]
        return parts

    def _pieces(self, offset: int, length: int) -> list[Spans]:
        pieces: list[Spans] = []
        end = offset + length
        while offset < end:
            number, inner = divmod(offset, self.segment_bytes)
            taken = min(self.segment_bytes - inner, end - offset)
            pieces.append((self.segment(number), [(inner, taken)]))
            offset += taken
        return pieces


def single_object(objects: Objects, path: str, length: int) -> SegmentedReader:
    """Return a reader of one object, which is a single segment however long it is."""
    name = f"{objects.address}/{path}"
    return SegmentedReader(objects, name, lambda _number: path, length, max(length, 1))
