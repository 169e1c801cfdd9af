"""Homomorphic tags: sigma_i = PRF_K(i) + sum_j alpha_j m_ij mod q, one per block."""

import numpy as np
from numpy.typing import NDArray

from holdfast.pdp.field import SCALAR_BYTES
from holdfast.pdp.keys import SecretKey
from holdfast.pdp.limbs import RUN_ROWS, Bytes, Reducer, multiply

TAG_BYTES = SCALAR_BYTES


class Tagger:
    """Tags runs of blocks of one version of one file."""

    def __init__(self, key: SecretKey, file_id: bytes, version: int, nonce: bytes) -> None:
        self._key, self._layout = key, key.layout
        self._prf = key.prf(file_id, version, nonce)
        self._constants = key.constants
        self._reducer = Reducer(key.layout)
        self._columns = np.empty((len(self._constants), RUN_ROWS))
        self._limbs = np.empty((key.layout.tile_rows, key.layout.limbs))

    def begin_file(self, file_id: bytes, version: int, nonce: bytes) -> None:
        """Tag another file from now on, with the same buffers: fresh ones cost as much as tags."""
        self._prf = self._key.prf(file_id, version, nonce)

    def tags(self, start: int, blocks: Bytes) -> Bytes:
        """Return the tags of the blocks from index `start` on, 32 big-endian bytes each."""
        tags = np.empty((len(blocks), TAG_BYTES), np.uint8)
        for first in range(0, len(blocks), RUN_ROWS):
            run = slice(first, min(first + RUN_ROWS, len(blocks)))
            pseudorandom = self._prf.run(start + first, run.stop - first)
            self._tag_run(pseudorandom, blocks[run], tags[run])
        return tags

    def scattered(self, indices: NDArray[np.int64], blocks: Bytes) -> Bytes:
        """Return the tags of blocks that do not follow one another."""
        tags = np.empty((len(blocks), TAG_BYTES), np.uint8)
        for first in range(0, len(blocks), RUN_ROWS):
            run = slice(first, first + RUN_ROWS)
            self._tag_run(self._prf.scattered(indices[run]), blocks[run], tags[run])
        return tags

    def _tag_run(self, pseudorandom: Bytes, blocks: Bytes, tags: Bytes) -> None:
        layout, rows = self._layout, len(blocks)
        columns = self._columns[:, :rows]
        for first in range(0, rows, layout.tile_rows):
            tile = slice(first, first + layout.tile_rows)
            limbs = layout.spread(blocks[tile], self._limbs)
            multiply(self._constants, limbs.T, columns[:, tile])
        self._reducer.reduce(columns, pseudorandom.view("<u4"), tags)
