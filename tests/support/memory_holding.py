"""A small holding in memory: an owner's key, a node's files and tags, and ways to damage them."""

from dataclasses import dataclass, field

import numpy as np

from holdfast.pdp import (
    Challenge,
    Inventory,
    Proof,
    Prover,
    SecretKey,
    StoredFile,
    TagFile,
    TagHeader,
    draw_challenge,
    verify_with_key,
)
from holdfast.pdp.readers import Memory
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES, PAGE_TAGS, encode_pages
from holdfast.pdp.tagging import Chunk, TaggingPool

FILE_ID = bytes(range(16))
NONCE = bytes(range(100, 132))


def tag_in_memory(
    key: SecretKey,
    content: bytes,
    file_id: bytes = FILE_ID,
    version: int = 1,
    nonce: bytes = NONCE,
) -> tuple[TagHeader, bytes]:
    header = TagHeader(key.public.id, file_id, version, nonce, key.sectors, len(content))
    pages = TaggingPool(Memory(content), key, header).pages(Chunk(0, header.blocks))
    return header, header.encode() + pages


@dataclass
class Holding:
    """What a node stores for an owner. The node may change `contents` and `tags` as it likes."""

    key: SecretKey
    contents: list[bytearray]
    tags: list[bytearray] = field(default_factory=list)
    ids: list[bytes] = field(default_factory=list)
    inventory: Inventory = field(init=False)

    def __post_init__(self) -> None:
        self.inventory = Inventory(self.key.public.id, self.key.sectors)
        for number, content in enumerate(self.contents):
            file_id = FILE_ID[:-1] + bytes([number])
            header, tags = tag_in_memory(self.key, bytes(content), file_id)
            self.ids.append(file_id)
            self.tags.append(bytearray(tags))
            self.inventory = self.inventory.with_file(header.entry)

    @classmethod
    def of(cls, *sizes: int, sectors: int = 2, seed: int = 0) -> "Holding":
        random = np.random.default_rng(seed)
        master = random.bytes(32)
        return cls(SecretKey(master, sectors), [bytearray(random.bytes(size)) for size in sizes])

    @property
    def block_bytes(self) -> int:
        return self.key.layout.block_bytes

    def prover(self) -> Prover:
        files = {
            file_id: StoredFile(Memory(bytes(content)), TagFile(Memory(bytes(tags))))
            for file_id, content, tags in zip(self.ids, self.contents, self.tags, strict=True)
        }
        return Prover(self.inventory, files)

    def prove(self, challenge: Challenge) -> Proof:
        return self.prover().prove(challenge)

    def verify(self, challenge: Challenge, proof: Proof) -> bool:
        return verify_with_key(self.key, self.inventory, challenge, proof)

    def challenge_all(self) -> Challenge:
        return draw_challenge(self.inventory, self.inventory.blocks)

    def passes(self) -> bool:
        """Audit every block."""
        challenge = self.challenge_all()
        return self.verify(challenge, self.prove(challenge))

    def damage(self, block: int, file: int = 0) -> None:
        self.contents[file][block * self.block_bytes] ^= 1

    def get_tags(self, file: int = 0) -> list[bytes]:
        tags = TagFile(Memory(bytes(self.tags[file])))
        return [row.tobytes() for row in tags.tags(np.arange(tags.header.blocks))]

    def set_tags(self, values: list[bytes], file: int = 0) -> None:
        """Store other tags, with checksums that fit, as a node can."""
        rows = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), 32)
        self.tags[file][HEADER_BYTES:] = encode_pages(0, rows)


__all__ = [
    "FILE_ID",
    "HEADER_BYTES",
    "NONCE",
    "PAGE_BYTES",
    "PAGE_TAGS",
    "Holding",
    "tag_in_memory",
]
