"""The tags of one file at rest: a header, then pages of eight tags with a checksum each.

    magic 16 | key id 32 | file id 16 | version 8 | nonce 32 | sectors 4 | length 8 | crc32 4
    page:  8 tags of 32 bytes (the last page may have fewer) | checksum 4

All numbers are big-endian. A reader fetches only the pages it needs, and tells a damaged tag, which
the owner can make again, from damaged data.
"""

import hashlib
import struct
import zlib
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import MalformedError
from holdfast.pdp.blocks import count_blocks
from holdfast.pdp.field import MAX_SECTORS
from holdfast.pdp.inventory import FileEntry
from holdfast.pdp.limbs import Bytes, Layout
from holdfast.pdp.readers import Reader, read_rows
from holdfast.pdp.tags import TAG_BYTES

MAGIC = b"holdfast tags 1\n"
PAGE_TAGS = 8
BODY_BYTES = PAGE_TAGS * TAG_BYTES
CHECKSUM_BYTES = 4
PAGE_BYTES = BODY_BYTES + CHECKSUM_BYTES
_WEIGHTS = np.frombuffer(
    hashlib.shake_256(b"holdfast/v1/tag page").digest(8 * (2 + BODY_BYTES // 4)), "<u8"
)
_HEADER = struct.Struct(">16s32s16sQ32sIQ")
HEADER_BYTES = _HEADER.size + 4


@dataclass(frozen=True)
class TagHeader:
    """Which bytes, under which key, the tags were made for."""

    key_id: bytes
    file_id: bytes
    version: int
    nonce: bytes
    sectors: int
    length: int

    @property
    def layout(self) -> Layout:
        return Layout(self.sectors)

    @property
    def blocks(self) -> int:
        return count_blocks(self.length, self.layout)

    @property
    def entry(self) -> FileEntry:
        """What an inventory says of the file."""
        return FileEntry(self.file_id, self.version, self.nonce, self.blocks)

    @property
    def file_bytes(self) -> int:
        """Size of the whole tag file."""
        return (
            HEADER_BYTES + self.blocks * TAG_BYTES + CHECKSUM_BYTES * -(-self.blocks // PAGE_TAGS)
        )

    def encode(self) -> bytes:
        names = (self.key_id, self.file_id, self.version, self.nonce)
        head = _HEADER.pack(MAGIC, *names, self.sectors, self.length)
        return head + zlib.crc32(head).to_bytes(4, "big")

    @classmethod
    def decode(cls, content: bytes, name: str) -> Self:
        if content[: len(MAGIC)] != MAGIC:
            raise MalformedError(f"{name} is not a Holdfast tag file of version 1")
        head = content[: _HEADER.size]
        if content[_HEADER.size :] != zlib.crc32(head).to_bytes(4, "big"):
            raise MalformedError(f"{name} is damaged: the checksum of its header does not match")
        header = cls(*_HEADER.unpack(head)[1:])
        if not 1 <= header.sectors <= MAX_SECTORS or not 1 <= header.version < 2**63:
            raise MalformedError(f"{name} has an impossible number of sectors or version")
        return header


def encode_pages(first_page: int, tags: Bytes) -> bytes:
    """Return the pages that hold these tags; all but the file's last page must be full."""
    count = -(-len(tags) // PAGE_TAGS)
    pages = np.empty((count, PAGE_BYTES), np.uint8)
    missing = count * PAGE_TAGS - len(tags)
    whole = (
        tags if not missing else np.concatenate([tags, np.zeros((missing, TAG_BYTES), np.uint8)])
    )
    bodies = whole.reshape(count, BODY_BYTES)
    pages[:, :BODY_BYTES] = bodies
    pages[:, BODY_BYTES:] = _checksums(np.arange(first_page, first_page + count), bodies)
    content = pages.tobytes()
    if not missing:
        return content
    end = len(content) - CHECKSUM_BYTES
    return content[: end - missing * TAG_BYTES] + content[end:]


def decode_pages(first_page: int, content: bytes) -> tuple[Bytes, NDArray[np.bool_]]:
    """Return the tags of neighbouring pages, and for each whether its page's checksum matches.

    Only the file's last page may be shorter.
    """
    missing = -len(content) % PAGE_BYTES
    if missing:
        content = content[:-CHECKSUM_BYTES] + bytes(missing) + content[-CHECKSUM_BYTES:]
    pages = np.frombuffer(content, np.uint8).reshape(-1, PAGE_BYTES)
    bodies = np.ascontiguousarray(pages[:, :BODY_BYTES])
    numbers = np.arange(first_page, first_page + len(pages))
    intact = (_checksums(numbers, bodies) == pages[:, BODY_BYTES:]).all(axis=1)
    count = len(pages) * PAGE_TAGS - missing // TAG_BYTES
    return bodies.reshape(-1, TAG_BYTES)[:count], intact.repeat(PAGE_TAGS)[:count]


def _checksums(numbers: NDArray[np.int64], bodies: Bytes) -> Bytes:
    """Return the upper half of a multilinear sum of each page's words and its number, mod 2^64.

    An accident goes unnoticed with probability 2^-32, as with a CRC, which zlib would compute one
    page at a time and ten times as slowly.
    """
    sums: NDArray[np.uint64] = np.einsum("ij,j->i", bodies.view("<u4"), _WEIGHTS[2:])
    sums += numbers.astype(np.uint64) * _WEIGHTS[0] + _WEIGHTS[1]
    upper = (sums >> np.uint64(32)).astype(">u4")
    return upper[:, np.newaxis].view(np.uint8)


class TagFile:
    """The tags behind a reader, any of them at any time."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.name
        self._reader = reader
        if reader.size() < HEADER_BYTES:
            raise MalformedError(f"{self.name} is too short to be a tag file: it was cut off")
        (head,) = reader.read_many([(0, HEADER_BYTES)])
        self.header = TagHeader.decode(bytes(head), self.name)
        if reader.size() != self.header.file_bytes:
            raise MalformedError(
                f"{self.name} has {reader.size()} bytes where its header asks for "
                f"{self.header.file_bytes}: it was cut off or extended"
            )

    def tags(self, indices: NDArray[np.int64]) -> Bytes:
        """Return the tags of these blocks, which must be in ascending order."""
        of_page = indices // PAGE_TAGS
        is_next = np.diff(of_page, prepend=-1) > 0
        numbers, rows = of_page[is_next], np.cumsum(is_next) - 1
        pages = self._pages(numbers)
        bodies = np.ascontiguousarray(pages[:, :BODY_BYTES])
        wrong = (_checksums(numbers, bodies) != pages[:, BODY_BYTES:]).any(axis=1)
        if wrong.any():
            raise MalformedError(
                f"{self.name} is damaged: the tags from block {numbers[wrong][0] * PAGE_TAGS} on "
                "do not match their checksum; take a good copy or tag the file again"
            )
        places = rows * PAGE_TAGS + indices % PAGE_TAGS
        tags: Bytes = bodies.reshape(-1, TAG_BYTES).take(places, axis=0)
        return tags

    def _pages(self, numbers: NDArray[np.int64]) -> Bytes:
        end = self.header.file_bytes
        pages = read_rows(self._reader, numbers, PAGE_BYTES, origin=HEADER_BYTES, end=end)
        missing = HEADER_BYTES + (int(numbers[-1]) + 1) * PAGE_BYTES - end
        if missing > 0:  # the checksum of the file's last page follows its last tag
            pages = pages.copy()
            stop = PAGE_BYTES - missing
            pages[-1, BODY_BYTES:] = pages[-1, stop - CHECKSUM_BYTES : stop].copy()
            pages[-1, stop - CHECKSUM_BYTES : BODY_BYTES] = 0
        return pages
