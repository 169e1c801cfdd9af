"""One file on one node. Nothing the node returns is trusted unless its tags confirm it.

A block is sound if the tag that the owner computes for it is the tag that the node returns: only
the content that was tagged has it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import NodeError
from holdfast.node.layout import Part
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner.catalogue import FileRecord
from holdfast.owner.holding import Holding
from holdfast.pdp import TagHeader
from holdfast.pdp.blocks import pad
from holdfast.pdp.limbs import Bytes
from holdfast.pdp.readers import Range
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES, PAGE_TAGS, decode_pages
from holdfast.pdp.tags import TAG_BYTES, Tagger

Mask = NDArray[np.bool_]
T = TypeVar("T")

BLOCKS_AT_ONCE = 512  # indices in one request, whose head stays below 16 KiB
STRIDE = 1 << 20  # what a node reads before it begins to answer
_LOST = {Code.DAMAGED, Code.STORAGE, Code.NOT_FOUND}


@dataclass(frozen=True)
class BlockTags:
    """The tag of a block's stored content, and the tag that the node stores, if it is legible."""

    content_tag: bytes
    tag: bytes | None


@dataclass(frozen=True)
class Run:
    """Neighbouring blocks as the node has them: content, the tags it should have, those stored.

    The node can make no proof with tags that are not `legible`.
    """

    start: int
    content: bytes
    content_tags: Bytes
    tags: Bytes
    legible: Mask

    @property
    def bad(self) -> list[int]:
        """Which blocks are not what was tagged."""
        return self._indices(self._wrong)

    @property
    def damaged(self) -> dict[int, BlockTags]:
        """Which blocks keep a proof from passing."""
        damaged = {}
        for index in self._indices(self._wrong | ~self.legible):
            row = index - self.start
            tag = self.tags[row].tobytes() if self.legible[row] else None
            damaged[index] = BlockTags(self.content_tags[row].tobytes(), tag)
        return damaged

    @property
    def _wrong(self) -> Mask:
        wrong: Mask = (self.content_tags != self.tags).any(axis=1)
        return wrong

    def _indices(self, mask: Mask) -> list[int]:
        indices: list[int] = (np.flatnonzero(mask) + self.start).tolist()
        return indices


@dataclass(frozen=True)
class Replica:
    holding: Holding
    file: FileRecord

    @cached_property
    def header(self) -> TagHeader:
        file, key = self.file, self.holding.key
        names = (key.public.id, file.file_id, file.version, file.nonce)
        return TagHeader(*names, key.sectors, file.length)

    @property
    def block_bytes(self) -> int:
        return self.header.layout.block_bytes

    @cached_property
    def tagger(self) -> Tagger:
        file = self.file
        return Tagger(self.holding.key, file.file_id, file.version, file.nonce)

    def span(self, start: int, stop: int) -> Range:
        """Return which bytes these blocks hold: offset and length."""
        offset = start * self.block_bytes
        return offset, min(stop * self.block_bytes, self.file.length) - offset

    def crypt(self, offset: int, content: bytes) -> bytes:
        """Return plain bytes as they are stored, or stored bytes as they were."""
        cipher = self.holding.cipher(self.file)
        return content if cipher is None else cipher.apply(offset, content)

    def run(self, start: int, stop: int, content: bytes | None = None) -> Run:
        """Fetch and check neighbouring blocks; what the node has lost comes as zeros.

        If `content`, their stored bytes, is given, only the tags are fetched.
        """
        offset, length = self.span(start, stop)
        if content is None:
            content = self._fetch(Part.DATA, offset, offset + length)
        tags, legible = self.tags(start, stop)
        content_tags = self.tagger.tags(start, self._rows(content, stop - start))
        return Run(start, content, content_tags, tags, legible)

    def tags(self, start: int, stop: int) -> tuple[Bytes, Mask]:
        """Return the tags that the node stores, and which are legible; zeros where it lost them."""
        first, last = start // PAGE_TAGS, -(-stop // PAGE_TAGS)
        offset = HEADER_BYTES + first * PAGE_BYTES if first else 0
        end = min(HEADER_BYTES + last * PAGE_BYTES, self.header.file_bytes)
        content = self._fetch(Part.TAGS, offset, end)
        head = b"" if first else content[:HEADER_BYTES]
        tags, legible = decode_pages(first, content[len(head) :])
        if head and head != self.header.encode():
            legible[:PAGE_TAGS] = False
        part = slice(start - first * PAGE_TAGS, stop - first * PAGE_TAGS)
        return tags[part], legible[part]

    def tags_for(self, indices: Sequence[int], content: bytes) -> dict[int, bytes]:
        """Return the tags that these ascending blocks, one after another, have in stored form."""
        rows = self._rows(content, len(indices))
        tags = self.tagger.scattered(np.array(indices, np.int64), rows)
        return dict(zip(indices, (tag.tobytes() for tag in tags), strict=True))

    def sound(self, indices: Sequence[int]) -> dict[int, bytes]:
        """Return the plain bytes of those of these ascending blocks that are sound."""
        blocks: dict[int, bytes] = {}
        for first in range(0, len(indices), BLOCKS_AT_ONCE):
            blocks |= self._sound(indices[first : first + BLOCKS_AT_ONCE])
        return blocks

    def read(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Return these ranges of plain bytes, None where a block is not sound."""
        size = self.block_bytes
        needed = [range(at // size, (at + max(length, 1) - 1) // size + 1) for at, length in ranges]
        blocks = self.sound(sorted({index for indices in needed for index in indices}))
        parts: list[bytes | None] = []
        for (offset, length), indices in zip(ranges, needed, strict=True):
            pieces = [blocks.get(index) for index in indices]
            joined = b"".join(piece for piece in pieces if piece is not None)
            skip = offset - indices.start * size
            parts.append(None if None in pieces else joined[skip : skip + length])
        return parts

    def _fetch(self, part: Part, start: int, stop: int) -> bytes:
        """Return a range as the node has it, with zeros for what it has lost."""
        node, where = self.holding.node, (self.holding.key_id, self.file.file_id, part)
        if start == stop:
            return b""
        with suppress(NodeError, NodeRefusedError):  # an answer breaks off where something is lost
            return node.read(*where, start, stop)
        stride = min(STRIDE, node.facts().segment_bytes)
        borders = [start, *range(start - start % stride + stride, stop, stride), stop]
        pieces = []
        for at, end in pairwise(borders):
            piece = _fetch_unless_lost(partial(node.read, *where, at, end))
            pieces.append(bytes(end - at) if piece is None else piece)
        return b"".join(pieces)

    def _sound(self, indices: Sequence[int]) -> dict[int, bytes]:
        node, where = self.holding.node, (self.holding.key_id, self.file.file_id)

        def fetch() -> tuple[bytes, bytes]:
            return node.blocks(*where, indices), b"".join(node.tags(*where, indices))

        fetched = _fetch_unless_lost(fetch)
        if fetched is None:  # one of them is lost, or the checksum over some tags is
            if len(indices) == 1:
                return {}
            middle = len(indices) // 2
            return self._sound(indices[:middle]) | self._sound(indices[middle:])
        content, tags = fetched
        spans = [self.span(index, index + 1) for index in indices]
        if len(content) != sum(length for _, length in spans):
            raise NodeError(
                f"{node.url} sent {len(content)} bytes where {len(indices)} blocks were asked for"
            )
        sound = {}
        for row, (index, right) in enumerate(self.tags_for(indices, content).items()):
            if right == tags[row * TAG_BYTES : (row + 1) * TAG_BYTES]:
                offset, length = self.span(index, index + 1)
                at = row * self.block_bytes
                sound[index] = self.crypt(offset, content[at : at + length])
        return sound

    def _rows(self, content: bytes, count: int) -> Bytes:
        """Return stored bytes as blocks, one per row, the file's last one padded."""
        if len(content) < count * self.block_bytes:
            whole = (count - 1) * self.block_bytes
            content = content[:whole] + pad(content[whole:], self.header.layout)
        return np.frombuffer(content, np.uint8).reshape(count, self.block_bytes)


def _fetch_unless_lost(fetch: Callable[[], T]) -> T | None:
    """Return what the node sends; None if it says that it has lost it."""
    try:
        return fetch()
    except NodeRefusedError as error:
        if error.code in _LOST:
            return None
        raise
