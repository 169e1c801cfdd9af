"""One proof for a challenge, across all files of a holding.

sigma = sum v_i sigma_i and, for each sector, mu_j = sum v_i m_ij mod q. Making it reads the
challenged blocks and their tags, nothing else.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError, MalformedError, RefusedError
from holdfast.pdp import encoding
from holdfast.pdp.blocks import scattered_blocks
from holdfast.pdp.challenge import Challenge
from holdfast.pdp.field import MAX_SECTORS, SCALAR_BYTES, Q, scalar_from_bytes, scalar_to_bytes
from holdfast.pdp.inventory import HASH_BYTES, FileEntry, Inventory
from holdfast.pdp.limbs import MAX_ROWS, ROWS_PER_PRODUCT, Bytes, WeightedSum, weights_of
from holdfast.pdp.readers import Reader
from holdfast.pdp.tagfile import TagFile


@dataclass(frozen=True)
class Proof:
    challenge_id: bytes
    sigma: int
    mu: tuple[int, ...]

    def encode(self) -> bytes:
        return encoding.dump(
            "proof",
            {
                "challenge_id": self.challenge_id.hex(),
                "sigma": scalar_to_bytes(self.sigma).hex(),
                "mu": [scalar_to_bytes(value).hex() for value in self.mu],
            },
        )

    @classmethod
    def decode(cls, content: bytes, name: str = "proof") -> Self:
        fields = encoding.load("proof", content, name)
        challenge_id = fields.hex("challenge_id", HASH_BYTES)
        sigma = scalar_from_bytes(fields.hex("sigma", SCALAR_BYTES), f"{name}: 'sigma'")
        what = f"{name}: a value of 'mu'"
        mu = tuple(
            scalar_from_bytes(encoding.unhex(value, SCALAR_BYTES, what), what)
            for value in fields.items("mu", 1, MAX_SECTORS)
        )
        fields.end()
        return cls(challenge_id, sigma, mu)


@dataclass(frozen=True)
class StoredFile:
    """A file and its tags, wherever they lie."""

    data: Reader
    tags: TagFile

    def check(self, entry: FileEntry, inventory: Inventory) -> None:
        """Raise unless this is what the inventory says, as far as sizes and names tell."""
        header, name = self.tags.header, self.tags.name
        if header.key_id != inventory.key_id or header.sectors != inventory.sectors:
            raise InputError(f"{name} was made under another key than the inventory's")
        if (header.file_id, header.version) != (entry.file_id, entry.version):
            raise InputError(
                f"{name} is version {header.version} of file {header.file_id.hex()}, where the "
                f"inventory has version {entry.version} of file {entry.file_id.hex()}"
            )
        if header.nonce != entry.nonce:
            raise InputError(
                f"{name} was made by another tagging of version {entry.version} than the "
                "inventory's: take the right one, or tag the file again"
            )
        if header.blocks != entry.blocks:
            raise InputError(f"{name} has {header.blocks} blocks, the inventory {entry.blocks}")
        if self.data.size() != header.length:
            raise MalformedError(
                f"{self.data.name} has {self.data.size()} bytes, but its tags were made for "
                f"{header.length}: it was cut off, extended or replaced"
            )

    def weighted_sums(self, indices: NDArray[np.int64], coefficients: Bytes) -> list[int]:
        """Return sum_i v_i m_ij mod q for each sector j and at last sum_i v_i sigma_i."""
        header, layout = self.tags.header, self.tags.header.layout
        tags = self.tags.tags(indices).view(">u4")[:, ::-1]
        weights = weights_of(coefficients)
        sums = WeightedSum(layout.limbs + tags.shape[1])
        tile_rows = max(1, round(layout.tile_rows / ROWS_PER_PRODUCT)) * ROWS_PER_PRODUCT
        limbs = np.empty((min(tile_rows, len(indices)), layout.limbs + tags.shape[1]))
        for rows, blocks in scattered_blocks(self.data, header.length, layout, indices, tile_rows):
            tile = limbs[: len(blocks)]
            layout.spread(blocks, tile)
            tile[:, layout.limbs :] = tags[rows]
            sums.add(weights[:, rows], tile)
        return layout.sums(sums.totals)


Part = tuple[FileEntry, NDArray[np.int64], Bytes]  # a file, blocks of it, their coefficients
MapParts = Callable[[Callable[[Part], list[int]], Iterable[Part]], Iterable[list[int]]]


@dataclass(frozen=True)
class Prover:
    """What a storage node can answer for: an inventory, and the stored file of each entry.

    `map_parts` applies a function to parts of the sample, of one file each: one after another, or
    side by side where the files lie on storage that takes long to answer.
    """

    inventory: Inventory
    files: Mapping[bytes, StoredFile]  # by file id
    map_parts: MapParts = map

    def prove(self, challenge: Challenge) -> Proof:
        inventory = self.inventory
        if (challenge.inventory_hash, challenge.blocks) != (inventory.hash, inventory.blocks):
            raise RefusedError(
                "the challenge is for another inventory than the one at hand: owner and node "
                "disagree on what is stored"
            )
        aggregates = [0] * (inventory.sectors + 1)
        for sums in self.map_parts(self._weighted_sums, self._parts(challenge)):
            aggregates = [a + b for a, b in zip(aggregates, sums, strict=True)]
        *mu, sigma = (value % Q for value in aggregates)
        return Proof(challenge.id, sigma, tuple(mu))

    def _parts(self, challenge: Challenge) -> Iterable[Part]:
        """Divide the sample by files, and by as many blocks as can be summed up exactly."""
        inventory, sample = self.inventory, challenge.sample
        borders = np.searchsorted(sample.indices, inventory.starts).tolist()
        for k, entry in enumerate(inventory.files):
            for start in range(borders[k], borders[k + 1], MAX_ROWS):
                part = slice(start, min(start + MAX_ROWS, borders[k + 1]))
                yield entry, sample.indices[part] - inventory.starts[k], sample.coefficients[part]

    def _weighted_sums(self, part: Part) -> list[int]:
        entry, indices, coefficients = part
        return self._stored(entry).weighted_sums(indices, coefficients)

    def _stored(self, entry: FileEntry) -> StoredFile:
        stored = self.files.get(entry.file_id)
        if stored is None:
            raise InputError(f"file {entry.file_id.hex()} of the inventory is not at hand")
        stored.check(entry, self.inventory)
        return stored
