"""The prover as it was: every block is read by a call of its own. A yardstick, not in use."""

import os
from pathlib import Path

import numpy as np

from holdfast.pdp import Challenge, Proof, Prover
from holdfast.pdp.blocks import PADDING
from holdfast.pdp.field import Q
from holdfast.pdp.limbs import ROWS_PER_PRODUCT, WeightedSum, weights_of
from holdfast.pdp.readers import LocalFile


def read_serially(prover: Prover, challenge: Challenge) -> list[bytes]:
    """Read the challenged blocks of the only file, one after another."""
    (entry,) = prover.inventory.files
    stored = prover.files[entry.file_id]
    size = stored.tags.header.layout.block_bytes
    data = stored.data
    if not isinstance(data, LocalFile):
        raise TypeError("the reference reads local files alone")
    with Path(data.name).open("rb", buffering=0) as file:
        return [
            os.pread(file.fileno(), size, int(index) * size) for index in challenge.sample.indices
        ]


def reference_prove(prover: Prover, challenge: Challenge) -> Proof:
    """Return the proof over the only file of a holding."""
    (entry,) = prover.inventory.files
    stored = prover.files[entry.file_id]
    layout, sample = stored.tags.header.layout, challenge.sample
    blocks = b"".join(
        (block + PADDING)[: layout.block_bytes].ljust(layout.block_bytes, b"\0")
        for block in read_serially(prover, challenge)
    )
    rows = np.frombuffer(blocks, np.uint8).reshape(-1, layout.block_bytes)
    tags = stored.tags.tags(sample.indices).view(">u4")[:, ::-1]
    weights = weights_of(sample.coefficients)
    sums = WeightedSum(layout.limbs + tags.shape[1])
    tile_rows = max(1, round(layout.tile_rows / ROWS_PER_PRODUCT)) * ROWS_PER_PRODUCT
    limbs = np.empty((tile_rows, layout.limbs + tags.shape[1]))
    for start in range(0, len(rows), tile_rows):
        part = slice(start, min(start + tile_rows, len(rows)))
        tile = limbs[: part.stop - part.start]
        layout.spread(rows[part], tile)
        tile[:, layout.limbs :] = tags[part]
        sums.add(weights[:, part], tile)
    *mu, sigma = (value % Q for value in layout.sums(sums.totals))
    return Proof(challenge.id, sigma, tuple(mu))
