"""A file as a sequence of blocks: S sectors of 31 bytes each, the last one padded.

The padding is one byte 0x80 and zeros, and is always there: a file whose length is a multiple of
the block length gets one more block. So the blocks determine the file, and no two files share them.
"""

from collections.abc import Iterator
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from holdfast.pdp.limbs import Bytes, Layout
from holdfast.pdp.readers import Range, Reader

PADDING = b"\x80"


def count_blocks(length: int, layout: Layout) -> int:
    return length // layout.block_bytes + 1


def pad(tail: bytes, layout: Layout) -> bytes:
    return (tail + PADDING).ljust(layout.block_bytes, b"\0")


def run_of_blocks(reader: Reader, length: int, layout: Layout, start: int, count: int) -> Bytes:
    """Return the blocks from `start` on, one row each, by one read."""
    size = layout.block_bytes
    offset = start * size
    stop = min(offset + count * size, length)
    (content,) = reader.read_many([(offset, stop - offset)])
    if start + count < count_blocks(length, layout):
        return np.frombuffer(content, np.uint8).reshape(count, size)
    run = np.zeros(count * size, np.uint8)
    run[: len(content)] = np.frombuffer(content, np.uint8)
    run[len(content)] = PADDING[0]
    return run.reshape(count, size)


def scattered_blocks(
    reader: Reader, length: int, layout: Layout, indices: NDArray[np.int64], rows: int
) -> Iterator[tuple[slice, Bytes]]:
    """Yield the blocks with these ascending indices, `rows` at a time, reading nothing else."""
    size = layout.block_bytes
    last = count_blocks(length, layout) - 1
    at_once = rows * max(1, reader.batch_bytes // (rows * size))
    for first in range(0, len(indices), at_once):
        part = indices[first : first + at_once]
        chunk = part.tolist()
        if chunk[-1] - chunk[0] == len(chunk) - 1:
            run = run_of_blocks(reader, length, layout, chunk[0], len(chunk))
            for start in range(0, len(chunk), rows):
                tile = run[start : start + rows]
                yield slice(first + start, first + start + len(tile)), tile
            continue
        ranges: list[Range] = list(zip((part * size).tolist(), repeat(size), strict=False))
        if chunk[-1] == last:
            ranges[-1] = (last * size, length - last * size)
        parts = list(reader.read_many(ranges))
        if chunk[-1] == last:
            parts[-1] = pad(bytes(parts[-1]), layout)
        for start in range(0, len(chunk), rows):
            tile_parts = parts[start : start + rows]
            tile = np.frombuffer(b"".join(tile_parts), np.uint8).reshape(-1, size)
            yield slice(first + start, first + start + len(tile)), tile
