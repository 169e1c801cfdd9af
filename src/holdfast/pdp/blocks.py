"""A file as a sequence of blocks: S sectors of 31 bytes each, the last one padded.

The padding is one byte 0x80 and zeros, and is always there: a file whose length is a multiple of
the block length gets one more block. So the blocks determine the file, and no two files share them.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast.pdp.limbs import Bytes, Layout
from holdfast.pdp.readers import Part, Reader, read_rows

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
    return as_blocks(content, length, layout, start, count)


def as_blocks(content: Part, length: int, layout: Layout, start: int, count: int) -> Bytes:
    """Return the content of the blocks from `start` on as blocks, one row each."""
    size = layout.block_bytes
    if start + count < count_blocks(length, layout):
        return np.frombuffer(content, np.uint8).reshape(count, size)
    run = np.zeros(count * size, np.uint8)
    run[: len(content)] = np.frombuffer(content, np.uint8)
    run[len(content)] = PADDING[0]
    return run.reshape(count, size)


def scattered_blocks(
    reader: Reader, length: int, layout: Layout, indices: NDArray[np.int64], rows: int
) -> Iterator[tuple[slice, Bytes]]:
    """Yield the blocks with these ascending indices, `rows` at a time."""
    at_once = rows * max(1, reader.batch_bytes // (rows * layout.block_bytes))
    for first in range(0, len(indices), at_once):
        blocks = read_blocks(reader, length, layout, indices[first : first + at_once])
        for start in range(0, len(blocks), rows):
            tile = blocks[start : start + rows]
            yield slice(first + start, first + start + len(tile)), tile


def read_blocks(reader: Reader, length: int, layout: Layout, indices: NDArray[np.int64]) -> Bytes:
    """Return the blocks with these ascending indices, one row each, the last one with padding."""
    blocks = read_rows(reader, indices, layout.block_bytes, origin=0, end=length)
    last = length // layout.block_bytes
    if indices[-1] == last:
        blocks = blocks if blocks.flags.writeable else blocks.copy()
        blocks[-1, length - last * layout.block_bytes] = PADDING[0]
    return blocks
