"""Downloads a file: every block is checked, and bad ones are taken from another replica.

The result must have the SHA-256 of the owner's copy, and the output appears whole or not at all.
What an interrupted download wrote is checked against the tags and not fetched again.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path

from holdfast import atomic
from holdfast.errors import HoldfastError
from holdfast.owner.fingerprint import Progress
from holdfast.owner.replica import BLOCKS_AT_ONCE, Replica
from holdfast.pdp.readers import Range
from holdfast.pdp.tagfile import PAGE_TAGS

RUN_BYTES = 8 << 20
MARK_BYTES = 4  # of the content's hash, in the draft's name


@dataclass(frozen=True)
class DownloadResult:
    """Byte ranges that were bad on the node, and those that no replica has."""

    bad: tuple[Range, ...]
    lost: tuple[Range, ...]
    kept: int = 0  # bytes that an earlier attempt had written


class _LostError(HoldfastError):
    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__("some blocks are lost")
        self.ranges = ranges


def get(
    replica: Replica,
    others: Sequence[Replica],
    out: Path,
    on_progress: Progress = lambda _bytes: None,
) -> DownloadResult:
    """Write the file to `out` unless a part of it is lost; `others` hold the same content.

    An interrupted call resumes when it is made again.
    """
    try:
        with atomic.resuming(out, replica.file.sha256[:MARK_BYTES].hex()) as file:
            bad, kept = _download(replica, file, on_progress)
            lost = bad
            for other in others:
                if lost:
                    lost = _patch(other, file, lost)
            _check_whole(file, replica, lost)
    except _LostError as error:
        return DownloadResult(tuple(bad), tuple(error.ranges))
    return DownloadResult(tuple(bad), (), kept)


def _check_whole(file: BufferedRandom, replica: Replica, lost: Sequence[Range]) -> None:
    file.truncate(replica.file.length)
    file.seek(0)
    if hashlib.file_digest(file, "sha256").digest() != replica.file.sha256:
        Path(file.name).unlink()  # it can never become whole
        raise _LostError(lost or [(0, replica.file.length)])


def _download(
    replica: Replica, file: BufferedRandom, on_progress: Progress
) -> tuple[list[Range], int]:
    """Write what is missing; return the ranges that tags don't confirm, and bytes that were there.

    For a run that an earlier attempt has written, only the tags are fetched if they confirm it.
    """
    bad: list[Range] = []
    kept, there = 0, file.seek(0, os.SEEK_END)
    for start, stop in runs_of(replica):
        offset, length = replica.span(start, stop)
        file.seek(offset)
        if offset + length <= there:
            stored = replica.crypt(offset, file.read(length))
            if not replica.run(start, stop, stored).bad:
                kept += length
                on_progress(offset + length)
                continue
            file.seek(offset)
        run = replica.run(start, stop)
        file.write(replica.crypt(offset, run.content))
        bad += [replica.span(index, index + 1) for index in run.bad]
        on_progress(offset + length)
    return bad, kept


def runs_of(replica: Replica) -> Iterator[tuple[int, int]]:
    """Divide the file into runs of whole pages of tags."""
    count = max(RUN_BYTES // replica.block_bytes // PAGE_TAGS, 1) * PAGE_TAGS
    for start in range(0, replica.header.blocks, count):
        yield start, min(start + count, replica.header.blocks)


def _patch(other: Replica, file: BufferedRandom, ranges: Sequence[Range]) -> list[Range]:
    """Write what the other replica has of these ranges; return what it has not."""
    missing = []
    for first in range(0, len(ranges), BLOCKS_AT_ONCE):
        part = ranges[first : first + BLOCKS_AT_ONCE]
        for (offset, length), content in zip(part, other.read(part), strict=True):
            if content is None:
                missing.append((offset, length))
            else:
                file.seek(offset)
                file.write(content)
    return missing
