"""One file on one node. Nothing the node returns is trusted unless its tags confirm it.

A block is sound if the tag that the owner computes for it is the tag that the node returns: only
the content that was tagged has it.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from threading import local
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
from holdfast.pdp.spans import EMPTY, Spans
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES, PAGE_TAGS, decode_pages
from holdfast.pdp.tags import Tagger

Mask = NDArray[np.bool_]
T = TypeVar("T")

BLOCKS_AT_ONCE = 512  # ranges in one request, whose head stays below 16 KiB
MAX_SPANS = 400  # in one request, for the same reason
WINDOW_BYTES = 8 << 20  # of blocks in one request
STRIDE = 1 << 20  # what a node reads before it begins to answer
NEAR_BYTES = 64 << 10  # blocks that lie as near as this are read with all between them
SPARSE = 8  # a span of which less than one part in so many is wanted is not read whole
_LOST = {Code.DAMAGED, Code.STORAGE, Code.NOT_FOUND, Code.UNKNOWN_HOLDING}


@dataclass(frozen=True)
class Excerpt:
    """Ranges of a file's plain bytes, and which bytes of the file nothing confirms."""

    parts: Sequence[bytes]
    doubtful: Spans = EMPTY


@dataclass(frozen=True)
class Blocks:
    """Blocks as the node has them: content, the tags it should have, and the tags stored.

    The node can make no proof with tags that are not `legible`.
    """

    spans: Spans
    content: bytes  # of all blocks, one after another
    content_tags: Bytes
    tags: Bytes
    legible: Mask

    @property
    def bad(self) -> list[int]:
        """Which blocks are not what was tagged."""
        blocks: list[int] = self.doubtful.blocks.tolist()
        return blocks

    @property
    def doubtful(self) -> Spans:
        """The blocks that are not what was tagged."""
        return Spans.of_blocks(self.spans.blocks[self._wrong])

    @property
    def damaged(self) -> Spans:
        """The blocks that keep a proof from passing."""
        return Spans.of_blocks(self.spans.blocks[self._wrong | ~self.legible])

    @property
    def _wrong(self) -> Mask:
        wrong: Mask = (self.content_tags != self.tags).any(axis=1)
        return wrong


@dataclass(frozen=True)
class Replica:
    """A file of a holding. Several threads may use it at once."""

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
    def window_blocks(self) -> int:
        """How many blocks one request is for: whole pages of tags, about a segment of content."""
        count = min(WINDOW_BYTES, self.holding.node.facts().segment_bytes) // self.block_bytes
        return max(count - count % PAGE_TAGS, PAGE_TAGS)

    @cached_property
    def _thread(self) -> local:
        return local()

    @property
    def _tagger(self) -> Tagger:
        """This thread's tagger: its buffers are used by every call."""
        tagger: Tagger | None = getattr(self._thread, "tagger", None)
        if tagger is None:
            file = self.file
            tagger = Tagger(self.holding.key, file.file_id, file.version, file.nonce)
            self._thread.tagger = tagger
        return tagger

    def span(self, start: int, stop: int) -> Range:
        """Return which bytes these blocks hold: offset and length."""
        offset = start * self.block_bytes
        return offset, min(stop * self.block_bytes, self.file.length) - offset

    def byte_spans(self, blocks: Spans) -> Spans:
        """Return which bytes of the file these blocks hold."""
        size, length = self.block_bytes, self.file.length
        return Spans.of((start * size, min(stop * size, length)) for start, stop in blocks)

    def crypt(self, offset: int, content: bytes) -> bytes:
        """Return plain bytes as they are stored, or stored bytes as they were."""
        cipher = self.holding.cipher(self.file)
        return content if cipher is None else cipher.apply(offset, content)

    def fetch(self, start: int, stop: int) -> bytes:
        """Return the plain bytes of neighbouring blocks as the node has them, unchecked."""
        offset, length = self.span(start, stop)
        return self.crypt(offset, self._fetch(Part.DATA, offset, offset + length))

    def run(self, start: int, stop: int, content: bytes | None = None) -> Blocks:
        """Fetch and check neighbouring blocks; what the node has lost comes as zeros.

        If `content`, their stored bytes, is given, only the tags are fetched.
        """
        return self._check(Spans(((start, stop),)), content)

    def fetch_blocks(self, spans: Spans) -> Blocks:
        """Fetch and check blocks of up to a window; what the node has lost comes as zeros."""
        return self._check(spans, self._fetch_scattered(spans))

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

    def tags_of(self, spans: Spans) -> tuple[Bytes, Mask]:
        """Return the tags that the node stores of these blocks, and which are legible."""
        start, stop = spans.hull
        tags, legible = self.tags(start, stop)
        if len(spans.spans) == 1:
            return tags, legible
        rows = spans.blocks - start
        return tags[rows], legible[rows]

    def compute_tags(self, blocks: NDArray[np.int64], rows: Bytes) -> Bytes:
        """Return the tags that these blocks have in stored form."""
        return self._tagger.scattered(blocks, rows)

    def rows(self, content: bytes, count: int) -> Bytes:
        """Return stored bytes as blocks, one per row, the file's last one padded."""
        if len(content) < count * self.block_bytes:
            whole = (count - 1) * self.block_bytes
            content = content[:whole] + pad(content[whole:], self.header.layout)
        return np.frombuffer(content, np.uint8).reshape(count, self.block_bytes)

    def read(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Return these ranges of plain bytes, None where a block is not sound."""
        excerpt = self.excerpt(ranges)
        return [
            None if excerpt.doubtful.within(offset, offset + length) else part
            for (offset, length), part in zip(ranges, excerpt.parts, strict=True)
        ]

    def excerpt(self, ranges: Sequence[Range]) -> Excerpt:
        """Return these ranges of plain bytes, and which of them the tags don't confirm."""
        size = self.block_bytes
        needed = Spans.of(
            (at // size, (at + max(length, 1) - 1) // size + 1) for at, length in ranges
        )
        plain = {start: bytearray() for start, _ in needed}
        starts = sorted(plain)
        doubtful = []
        for part in needed.split(self.window_blocks, MAX_SPANS):
            blocks = self.fetch_blocks(part)
            doubtful.append(self.byte_spans(blocks.doubtful))
            at = 0
            for span in part:
                offset, length = self.span(*span)
                into = plain[starts[bisect_right(starts, span[0]) - 1]]
                into += self.crypt(offset, blocks.content[at : at + length])
                at += length
        parts = []
        for offset, length in ranges:
            start = starts[bisect_right(starts, offset // size) - 1]
            skip = offset - start * size
            parts.append(bytes(memoryview(plain[start])[skip : skip + length]))
        return Excerpt(parts, EMPTY.join(*doubtful))

    def _check(self, spans: Spans, content: bytes | None) -> Blocks:
        """Compare the content, fetched unless it is given, with the tags that the node stores."""
        if content is None:
            content = self._fetch_hull(spans)
        tags, legible = self.tags_of(spans)
        blocks = spans.blocks
        content_tags = self.compute_tags(blocks, self.rows(content, len(blocks)))
        return Blocks(spans, content, content_tags, tags, legible)

    def _fetch_scattered(self, spans: Spans) -> bytes | None:
        """Return these blocks as the node has them; None if they are better read as one range."""
        start, stop = spans.hull
        near = (stop - start) * self.block_bytes <= NEAR_BYTES
        if near or spans.count * SPARSE >= stop - start:
            return None
        holding = self.holding
        fetch = partial(holding.node.blocks, holding.key_id, self.file.file_id, spans)
        content = _fetch_unless_lost(fetch)  # or one of them is lost, and the others are not
        expected = sum(self.span(*span)[1] for span in spans)
        if content is not None and len(content) != expected:
            raise NodeError(
                f"{holding.node.url} sent {len(content)} bytes where {spans.count} blocks were "
                "asked for"
            )
        return content

    def _fetch_hull(self, spans: Spans) -> bytes:
        """Return these blocks, having read all from the first of them to the last."""
        first, length = self.span(*spans.hull)
        content = self._fetch(Part.DATA, first, first + length)
        if len(spans.spans) == 1:
            return content
        view, parts = memoryview(content), []
        for span in spans:
            offset, length = self.span(*span)
            parts.append(view[offset - first : offset - first + length])
        return b"".join(parts)

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


def _fetch_unless_lost(fetch: Callable[[], T]) -> T | None:
    """Return what the node sends; None if it says that it has lost it."""
    try:
        return fetch()
    except NodeRefusedError as error:
        if error.code in _LOST:
            return None
        raise
