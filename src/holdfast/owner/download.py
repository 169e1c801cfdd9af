"""A file had back from a node: every block checked, bad ones taken from another replica.

The SHA-256 of the owner's copy has the last word, and the output appears whole or not at all.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path

from holdfast import atomic
from holdfast.errors import HoldfastError
from holdfast.owner.content import Progress
from holdfast.owner.replica import BLOCKS_AT_ONCE, Replica
from holdfast.pdp.readers import Range
from holdfast.pdp.tagfile import PAGE_TAGS

RUN_BYTES = 8 << 20


@dataclass(frozen=True)
class Fetched:
    """How it went: byte ranges that were bad on the node, and those found nowhere else."""

    bad: tuple[Range, ...]
    lost: tuple[Range, ...]


class _LostError(HoldfastError):
    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__("some blocks are lost")
        self.ranges = ranges


def get(
    replica: Replica,
    others: Sequence[Replica],
    out: Path,
    progress: Progress = lambda _bytes: None,
) -> Fetched:
    """Write the file to `out` unless a part of it is lost; `others` hold the same content."""
    try:
        with atomic.replacing(out, overwrite=False) as draft, draft.open("r+b") as file:
            bad = _download(replica, file, progress)
            lost = bad
            for other in others:
                if lost:
                    lost = _patch(other, file, lost)
            _check_whole(file, replica, lost)
    except _LostError as error:
        return Fetched(tuple(bad), tuple(error.ranges))
    return Fetched(tuple(bad), ())


def _check_whole(file: BufferedRandom, replica: Replica, lost: Sequence[Range]) -> None:
    file.seek(0)
    if hashlib.file_digest(file, "sha256").digest() != replica.file.sha256:
        raise _LostError(lost or [(0, replica.file.length)])


def _download(replica: Replica, file: BufferedRandom, progress: Progress) -> list[Range]:
    """Write all that the node has; return the ranges that its tags don't confirm."""
    bad: list[Range] = []
    for start, stop in runs_of(replica):
        offset, length = replica.span(start, stop)
        run = replica.run(start, stop)
        file.write(replica.crypt(offset, run.content))
        bad += [replica.span(index, index + 1) for index in run.bad]
        progress(offset + length)
    return bad


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
