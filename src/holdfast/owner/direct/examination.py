"""Finds the blocks of an object that are not what was tagged, by the tags themselves."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.node.holding import Holding
from holdfast.node.record import FileRecord
from holdfast.pdp import SecretKey
from holdfast.pdp.blocks import read_blocks
from holdfast.pdp.tags import Tagger

BLOCKS_AT_ONCE = 1 << 14

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Examination:
    """Reads blocks of a direct holding and compares them with their tags."""

    holding: Holding
    key: SecretKey

    def wrong_blocks(self, file: FileRecord, indices: Indices) -> int:
        """Return how many of these blocks, in ascending order, are not what was tagged."""
        stored, layout = self.holding.stored_file(file), self.key.layout
        tagger = Tagger(self.key, file.file_id, file.version, file.nonce)
        wrong = 0
        for first in range(0, len(indices), BLOCKS_AT_ONCE):
            some = indices[first : first + BLOCKS_AT_ONCE]
            blocks = read_blocks(stored.data, file.length, layout, some)
            tags = tagger.scattered(some, blocks)
            wrong += int((tags != stored.tags.tags(some)).any(axis=1).sum())
        return wrong

    def sample_of(self, indices: Indices) -> Iterator[tuple[FileRecord, Indices]]:
        """Divide ascending blocks of the holding by files, numbered within each."""
        record = self.holding.record
        borders = np.searchsorted(indices, record.inventory.starts).tolist()
        for at, file in enumerate(record.files):
            if borders[at] < borders[at + 1]:
                start = record.inventory.starts[at]
                yield file, indices[borders[at] : borders[at + 1]] - start

    def blocks_of(self, file: FileRecord) -> int:
        return file.header(self.holding.record.public).blocks
