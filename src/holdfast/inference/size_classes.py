"""Size classes: holdings of nearly the same size share one filter.

The filter of a size costs far more than running it over one more holding. So sizes within a few
per cent of each other are treated as one. docs/inference.md states the error that this brings.
"""

from dataclasses import replace

import numpy as np

from holdfast.inference.log import Log
from holdfast.model.arrays import IntArray

# The largest size of a class over its smallest. With 1, every size is a class of its own.
MAX_RATIO = 1.1


def size_classes(blocks: IntArray, max_ratio: float = MAX_RATIO) -> IntArray:
    """Return the size that stands for each of these; a size without neighbours stays itself."""
    sizes, inverse = np.unique(blocks, return_inverse=True)
    representative = sizes.copy()
    start = 0
    while start < len(sizes):
        end = int(np.searchsorted(sizes, sizes[start] * max_ratio, side="right"))
        middle = float(np.sqrt(float(sizes[start]) * float(sizes[end - 1])))
        representative[start:end] = round(middle)
        start = end
    return np.asarray(representative[inverse], np.int64)


def in_classes(log: Log, classes: IntArray) -> Log:
    """Return the log as if each node had the size of its class.

    Counted damage keeps its share of the blocks. The number of sampled blocks stays: whether a
    sample detects damage depends on that number and on the share that is damaged.
    """
    blocks = classes[log.node]
    scaled = np.rint(log.damaged * (blocks / log.blocks[log.node])).astype(np.int64)
    return replace(
        log,
        blocks=classes,
        sampled=np.minimum(log.sampled, blocks),
        damaged=np.where(log.damaged > 0, np.clip(scaled, 1, blocks), log.damaged),
    )
