"""One file on one node. Nothing the node returns is trusted unless its tags confirm it.

A block is sound if the tag that the owner computes for it is the tag that the node returns: only
the content that was tagged has it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
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
from holdfast.pdp.tags import TAG_BYTES, Tagger

Mask = NDArray[np.bool_]
T = TypeVar("T")

BLOCKS_AT_ONCE = 512  # ranges in one request, whose head stays below 16 KiB
MAX_SPANS = 400  # in one request, for the same reason
WINDOW_BYTES = 8 << 20  # of blocks in one request
STRIDE = 1 << 20  # what a node reads before it begins to answer
NEAR_BYTES = 64 << 10  # blocks that lie as near as this are read with all between them
SPARSE = 8  # a span of which less than one part in so many is wanted is not read whole
MAX_WINDOWS = 32  # of which one request names a few blocks: a node rewrites a segment for each
_LOST = {Code.DAMAGED, Code.STORAGE, Code.NOT_FOUND, Code.UNKNOWN_HOLDING}


@dataclass(frozen=True)
class Excerpt:
    """Ranges of a file's plain bytes. On request it is found which bytes nothing confirms."""

    parts: Sequence[bytes]
    find_doubtful: Callable[[], Spans] = lambda: EMPTY


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

    @cached_property
    def block_bytes(self) -> int:
        return self.header.layout.block_bytes

    @cached_property
    def window_blocks(self) -> int:
        """How many blocks one request is for: whole pages of tags, about a segment of content."""
        count = min(WINDOW_BYTES, self.holding.node.facts().segment_bytes) // self.block_bytes
        return max(count - count % PAGE_TAGS, PAGE_TAGS)

    def divide(self, blocks: Spans) -> Iterator[Spans]:
        """Divide blocks into as many as one request is for: those of a window, or few of several.

        Few are those that are not worth a window together.
        """
        size, group, windows = self.window_blocks, EMPTY, 0
        for part in blocks.split(size, MAX_SPANS):
            joined = group.join(part)
            few = SPARSE * joined.count <= size and len(joined.spans) <= MAX_SPANS
            if group and not (few and windows < MAX_WINDOWS):
                yield group
                joined, windows = part, 0
            group, windows = joined, windows + 1
        if group:
            yield group

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
        spans = Spans(((start, stop),))
        return self._check(spans, self._fetch_hull(spans) if content is None else content)

    def fetch_blocks(self, spans: Spans) -> Blocks:
        """Fetch and check blocks of up to a window; what the node has lost comes as zeros."""
        return self._check(spans, self._content(spans))

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
        if self._is_sparse(spans):
            # The header stands before the first page. A request for single tags doesn't show it.
            if head := spans.within(0, PAGE_TAGS):
                return self._tags_of_all([head, spans.within(PAGE_TAGS, spans.hull[1])])
            holding = self.holding
            fetch = partial(holding.node.tags, holding.key_id, self.file.file_id, spans)
            content = self._fetch_exactly(fetch, TAG_BYTES * spans.count, spans)
            if content is not None:
                single: Bytes = np.frombuffer(content, np.uint8).reshape(-1, TAG_BYTES)
                return single, np.ones(len(single), np.bool_)
        if parts := self._parts(spans):
            return self._tags_of_all(parts)
        start, stop = spans.hull
        tags, legible = self.tags(start, stop)
        if len(spans.spans) == 1:
            return tags, legible
        rows = spans.blocks - start
        return tags[rows], legible[rows]

    def _tags_of_all(self, parts: Sequence[Spans]) -> tuple[Bytes, Mask]:
        tags, legible = zip(*map(self.tags_of, parts), strict=True)
        return np.concatenate(tags), np.concatenate(legible)

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
        doubtful = excerpt.find_doubtful()
        return [
            None if doubtful.within(offset, offset + length) else part
            for (offset, length), part in zip(ranges, excerpt.parts, strict=True)
        ]

    def excerpt(self, ranges: Sequence[Range]) -> Excerpt:
        """Return these ranges of plain bytes, which the node's tags may not confirm."""
        size = self.block_bytes
        needed = Spans.of(
            (at // size, (at + max(length, 1) - 1) // size + 1) for at, length in ranges
        )
        plain = {start: bytearray() for start, _ in needed}
        starts = sorted(plain)
        stored = [(part, self._content(part)) for part in self.divide(needed)]
        for part, content in stored:
            at = 0
            for span in part:
                offset, length = self.span(*span)
                into = plain[starts[bisect_right(starts, span[0]) - 1]]
                into += self.crypt(offset, content[at : at + length])
                at += length
        parts = []
        for offset, length in ranges:
            start = starts[bisect_right(starts, offset // size) - 1]
            skip = offset - start * size
            parts.append(bytes(memoryview(plain[start])[skip : skip + length]))
        return Excerpt(parts, lambda: EMPTY.join(*(self._doubtful(*one) for one in stored)))

    def _doubtful(self, spans: Spans, content: bytes) -> Spans:
        """Return which bytes of the file the tags of these blocks don't confirm."""
        return self.byte_spans(self._check(spans, content).doubtful)

    def _check(self, spans: Spans, content: bytes) -> Blocks:
        """Compare the content with the tags that the node stores."""
        tags, legible = self.tags_of(spans)
        blocks = spans.blocks
        content_tags = self.compute_tags(blocks, self.rows(content, len(blocks)))
        return Blocks(spans, content, content_tags, tags, legible)

    def _content(self, spans: Spans) -> bytes:
        """Return these blocks as the node has them, with zeros for what it has lost."""
        if self._is_sparse(spans):
            holding = self.holding
            fetch = partial(holding.node.blocks, holding.key_id, self.file.file_id, spans)
            expected = sum(self.span(*span)[1] for span in spans)
            content = self._fetch_exactly(fetch, expected, spans)
            if content is not None:
                return content
        if parts := self._parts(spans):
            return b"".join(map(self._content, parts))
        return self._fetch_hull(spans)

    def _is_sparse(self, spans: Spans) -> bool:
        """Whether these blocks are better asked for one by one than with all between them."""
        start, stop = spans.hull
        near = (stop - start) * self.block_bytes <= NEAR_BYTES
        return not near and spans.count * SPARSE < stop - start

    def _parts(self, spans: Spans) -> list[Spans]:
        """Return the blocks of each window, if there are several."""
        parts = list(spans.split(self.window_blocks, MAX_SPANS))
        return parts if len(parts) > 1 else []

    def _fetch_exactly(
        self, fetch: Callable[[], bytes], expected: int, spans: Spans
    ) -> bytes | None:
        """Return what the node sends of these blocks; None if it has lost one of them."""
        content = _fetch_unless_lost(fetch)
        if content is not None and len(content) != expected:
            raise NodeError(
                f"{self.holding.node.url} sent {len(content)} bytes where {spans.count} blocks "
                "were asked for"
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
