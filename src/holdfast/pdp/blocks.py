"""A file as a sequence of blocks: S sectors of 31 bytes each, the last one padded.

The padding is one byte 0x80 and zeros, and is always there: a file whose length is a multiple of
the block length gets one more block. So the blocks determine the file, and no two files share them.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast.pdp.limbs import Bytes, Layout
from holdfast.pdp.readers import Range, Reader

PADDING = b"\x80"


def count_blocks(length: int, layout: Layout) -> int:
    return length // layout.block_bytes + 1


def padded(tail: bytes, layout: Layout) -> bytes:
    return (tail + PADDING).ljust(layout.block_bytes, b"\0")


def run_of_blocks(reader: Reader, length: int, layout: Layout, start: int, count: int) -> Bytes:
    """Return the blocks from `start` on, one row each, by one read."""
    size = layout.block_bytes
    offset = start * size
    stop = min(offset + count * size, length)
    (content,) = reader.read_many([(offset, stop - offset)])
    if start + count == count_blocks(length, layout):
        content += padded(b"", layout)[: count * size - len(content)]
    return np.frombuffer(content, np.uint8).reshape(count, size)


def scattered_blocks(
    reader: Reader, length: int, layout: Layout, indices: NDArray[np.int64], batch: int
) -> Iterator[tuple[slice, Bytes]]:
    """Yield the blocks with these indices, `batch` at a time, reading nothing else."""
    size = layout.block_bytes
    last = count_blocks(length, layout) - 1
    for start in range(0, len(indices), batch):
        chunk = indices[start : start + batch].tolist()
        rows = slice(start, start + len(chunk))
        if chunk[-1] - chunk[0] == len(chunk) - 1:
            yield rows, run_of_blocks(reader, length, layout, chunk[0], len(chunk))
            continue
        ranges: list[Range] = [(index * size, size) for index in chunk]
        ends = chunk[-1] == last
        if ends:
            ranges[-1] = (last * size, length - last * size)
        parts = reader.read_many(ranges)
        if ends:
            parts[-1] = padded(parts[-1], layout)
        yield rows, np.frombuffer(b"".join(parts), np.uint8).reshape(len(chunk), size)
