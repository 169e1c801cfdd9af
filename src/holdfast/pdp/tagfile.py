"""The tags of one file at rest: a header, then pages of eight tags with a checksum each.

    magic 16 | key id 32 | file id 16 | version 8 | sectors 4 | length 8 | crc32 4
    page:  8 tags of 32 bytes (the last page may have fewer) | crc32 4

All numbers are big-endian. A reader fetches only the pages it needs, and tells a damaged tag, which
the owner can make again, from damaged data.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import MalformedError
from holdfast.pdp.blocks import count_blocks
from holdfast.pdp.field import MAX_SECTORS
from holdfast.pdp.limbs import Bytes, Layout
from holdfast.pdp.readers import Reader
from holdfast.pdp.tags import TAG_BYTES

MAGIC = b"holdfast tags 1\n"
PAGE_TAGS = 8
PAGE_BYTES = PAGE_TAGS * TAG_BYTES + 4
_HEADER = struct.Struct(">16s32s16sQIQ")
HEADER_BYTES = _HEADER.size + 4


@dataclass(frozen=True)
class TagHeader:
    """Which bytes, under which key, the tags were made for."""

    key_id: bytes
    file_id: bytes
    version: int
    sectors: int
    length: int

    @property
    def layout(self) -> Layout:
        return Layout(self.sectors)

    @property
    def blocks(self) -> int:
        return count_blocks(self.length, self.layout)

    @property
    def file_bytes(self) -> int:
        """Size of the whole tag file."""
        return HEADER_BYTES + self.blocks * TAG_BYTES + 4 * -(-self.blocks // PAGE_TAGS)

    def encode(self) -> bytes:
        fields = (self.key_id, self.file_id, self.version, self.sectors, self.length)
        head = _HEADER.pack(MAGIC, *fields)
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
    parts = []
    for page, start in enumerate(range(0, len(tags), PAGE_TAGS), start=first_page):
        body = tags[start : start + PAGE_TAGS].tobytes()
        parts += [body, _page_checksum(page, body)]
    return b"".join(parts)


class TagFile:
    """The tags behind a reader, any of them at any time."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.name
        self._reader = reader
        if reader.size() < HEADER_BYTES:
            raise MalformedError(f"{self.name} is too short to be a tag file: it was cut off")
        (head,) = reader.read_many([(0, HEADER_BYTES)])
        self.header = TagHeader.decode(head, self.name)
        if reader.size() != self.header.file_bytes:
            raise MalformedError(
                f"{self.name} has {reader.size()} bytes where its header asks for "
                f"{self.header.file_bytes}: it was cut off or extended"
            )

    def tags(self, indices: NDArray[np.int64]) -> Bytes:
        """Return the tags of these blocks, which must be in ascending order."""
        wanted = np.unique(indices // PAGE_TAGS)
        pages = np.zeros((len(wanted), PAGE_TAGS, TAG_BYTES), np.uint8)
        for row, body in enumerate(self._pages(wanted.tolist())):
            pages.reshape(len(wanted), -1)[row, : len(body)] = np.frombuffer(body, np.uint8)
        rows = np.searchsorted(wanted, indices // PAGE_TAGS)
        return pages[rows, indices % PAGE_TAGS]

    def _pages(self, wanted: list[int]) -> Iterator[bytes]:
        last = (self.header.blocks - 1) // PAGE_TAGS
        tail = self.header.file_bytes - HEADER_BYTES - last * PAGE_BYTES
        ranges = [
            (HEADER_BYTES + page * PAGE_BYTES, PAGE_BYTES if page < last else tail)
            for page in wanted
        ]
        for page, content in zip(wanted, self._reader.read_many(ranges), strict=True):
            if content[-4:] != _page_checksum(page, content[:-4]):
                raise MalformedError(
                    f"{self.name} is damaged: the tags from block {page * PAGE_TAGS} on do not "
                    "match their checksum; take a good copy or tag the file again"
                )
            yield content[:-4]


def _page_checksum(page: int, body: bytes) -> bytes:
    return zlib.crc32(body, page & 0xFFFFFFFF).to_bytes(4, "big")
