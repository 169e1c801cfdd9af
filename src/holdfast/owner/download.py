"""Downloads a file: what arrives must have the SHA-256 of the owner's copy.

Runs of blocks are fetched side by side, written in order, and hashed meanwhile. Only if the hash is
another one are the blocks checked against their tags, one by one; bad ones are taken from another
replica. The output appears whole or not at all. An interrupted download resumes after the runs that
it wrote.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path

from holdfast import atomic
from holdfast.errors import HoldfastError
from holdfast.node.lanes import lanes
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
            bad: list[Range] = []
            kept = _count_kept(replica, file)
            if not _download(replica, file, kept, on_progress):
                kept, bad = _check_runs(replica, file, kept)
                lost = bad
                for other in others:
                    if lost:
                        lost = _patch(other, file, lost)
                _check_whole(file, replica, lost)
    except _LostError as error:
        return DownloadResult(tuple(bad), tuple(error.ranges))
    return DownloadResult(tuple(bad), (), kept)


def _count_kept(replica: Replica, file: BufferedRandom) -> int:
    """Return how many bytes of whole runs an earlier attempt has written."""
    length, run_bytes = file.seek(0, os.SEEK_END), count_run_blocks(replica) * replica.block_bytes
    return replica.file.length if length >= replica.file.length else length - length % run_bytes


def _download(replica: Replica, file: BufferedRandom, kept: int, on_progress: Progress) -> bool:
    """Write what follows the bytes that are kept; return whether the whole is the owner's file."""
    digest, done = hashlib.sha256(), 0
    file.seek(0)
    while done < kept:
        content = file.read(min(RUN_BYTES, kept - done))
        digest.update(content)
        done += len(content)
        on_progress(done)
    missing = [run for run in runs_of(replica) if replica.span(*run)[0] >= kept]
    with lanes(lambda run: replica.fetch(*run), missing) as contents:
        for content in contents:
            file.write(content)
            digest.update(content)
            done += len(content)
            on_progress(done)
    file.truncate(done)
    return digest.digest() == replica.file.sha256


def _check_runs(replica: Replica, file: BufferedRandom, kept: int) -> tuple[int, list[Range]]:
    """Check what was written against the tags, and fetch again what they don't confirm.

    Return how many of the bytes that were kept are right, and the ranges that are bad on the node.
    """
    right, bad = 0, []
    for start, stop in runs_of(replica):
        offset, length = replica.span(start, stop)
        file.seek(offset)
        stored = replica.crypt(offset, file.read(length))
        if not replica.run(start, stop, stored).bad:
            right += length if offset + length <= kept else 0
            continue
        run = replica.run(start, stop)
        file.seek(offset)
        file.write(replica.crypt(offset, run.content))
        bad += [replica.span(index, index + 1) for index in run.bad]
    return right, bad


def _check_whole(file: BufferedRandom, replica: Replica, lost: Sequence[Range]) -> None:
    file.truncate(replica.file.length)
    file.seek(0)
    if hashlib.file_digest(file, "sha256").digest() != replica.file.sha256:
        Path(file.name).unlink()  # it can never become whole
        raise _LostError(lost or [(0, replica.file.length)])


def runs_of(replica: Replica) -> Iterator[tuple[int, int]]:
    """Divide the file into runs of whole pages of tags."""
    count = count_run_blocks(replica)
    for start in range(0, replica.header.blocks, count):
        yield start, min(start + count, replica.header.blocks)


def count_run_blocks(replica: Replica) -> int:
    return max(RUN_BYTES // replica.block_bytes // PAGE_TAGS, 1) * PAGE_TAGS


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
