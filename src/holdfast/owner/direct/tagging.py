"""Tags one object of a direct holding: every byte is read once, hashed and tagged as it comes."""

import hashlib
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Self

from holdfast.errors import UnreachableError
from holdfast.node.daemon_pool import STALL_SECONDS, DaemonPool
from holdfast.node.objects import StoredObject
from holdfast.node.record import FileRecord as NodeFile
from holdfast.node.segments import SEGMENT_BYTES, combine_digests
from holdfast.owner.catalogue import FileRecord
from holdfast.owner.direct.storage import DirectStorage
from holdfast.owner.direct.tag_store import TagStore
from holdfast.pdp import SecretKey, TagHeader
from holdfast.pdp.blocks import as_blocks
from holdfast.pdp.keys import FILE_ID_BYTES, NONCE_BYTES, draw_nonce
from holdfast.pdp.tagfile import PAGE_TAGS, encode_pages
from holdfast.pdp.tagging import CHUNK_BYTES, Chunk, chunks_of
from holdfast.pdp.tags import Tagger

CHUNKS_AHEAD = 2  # that are read while one is tagged

Progress = Callable[[int], None]


@dataclass(frozen=True)
class TaggedObject:
    """An object and its tags: all that the catalogue, the tag store and the next listing need."""

    file: FileRecord
    data_digest: bytes
    tags_digest: bytes
    stamp: str

    @property
    def node_file(self) -> NodeFile:
        """The object as a node records it; its tags lie under their nonce."""
        file = self.file
        names = (file.file_id, file.version, file.nonce, file.length)
        return NodeFile(*names, self.data_digest, self.tags_digest, file.nonce, file.name)

    def encode(self) -> dict[str, Any]:
        fields = vars(self.file) | {
            "data_digest": self.data_digest,
            "tags_digest": self.tags_digest,
            "stamp": self.stamp,
        }
        return {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value in fields.items()
        }

    @classmethod
    def decode(cls, fields: dict[str, Any]) -> Self:
        def take(name: str) -> bytes:
            return bytes.fromhex(fields[name])

        file = FileRecord(
            str(fields["name"]),
            str(fields["source"]),
            take("file_id"),
            int(fields["version"]),
            take("nonce"),
            int(fields["length"]),
            take("sha256"),
            take("tags_sha256"),
        )
        return cls(file, take("data_digest"), take("tags_digest"), str(fields["stamp"]))


class ObjectTagger:
    """Reads objects and writes their tags. Several threads may tag objects at once."""

    def __init__(
        self, storage: DirectStorage, store: TagStore, key: SecretKey, threads: int = 1
    ) -> None:
        """Make a tagger; of the threads that call it, so many tag at a time."""
        self._storage, self._store, self._key = storage, store, key
        self._readers = DaemonPool(CHUNKS_AHEAD * storage.files_at_once)
        self._taggers: SimpleQueue[Tagger] = SimpleQueue()
        for _ in range(threads):
            self._taggers.put(Tagger(key, bytes(FILE_ID_BYTES), 1, bytes(NONCE_BYTES)))

    def tag(
        self,
        found: StoredObject,
        known: FileRecord | None = None,
        on_progress: Progress = lambda _bytes: None,
    ) -> TaggedObject:
        """Tag an object, as a further version of the `known` one; `on_progress` gets bytes read."""
        file_id = known.file_id if known else secrets.token_bytes(FILE_ID_BYTES)
        version, nonce = known.version + 1 if known else 1, draw_nonce()
        header = TagHeader(
            self._key.public.id, file_id, version, nonce, self._key.sectors, found.size
        )
        content = SegmentDigest(found.size)
        tags = _TagWriter(self._store, nonce, header.file_bytes)
        tags.write(header.encode())
        for chunk, part in self._read(found, header):
            content.update(part)
            tags.write(self._pages(header, chunk, part))
            on_progress(len(part))
        tags.close()
        source = f"{self._storage.address}/{found.name}"
        names = (found.name, source, file_id, version, nonce, found.size)
        file = FileRecord(*names, content.sha256, tags.digest.sha256)
        return TaggedObject(file, content.combined, tags.digest.combined, found.stamp)

    def _read(self, found: StoredObject, header: TagHeader) -> Iterator[tuple[Chunk, bytes]]:
        """Yield the content chunk by chunk, the next ones being read meanwhile."""
        if found.size <= CHUNK_BYTES // 2:  # a single one, which needs no other thread
            (whole,) = chunks_of(header)
            size = found.size
            yield whole, self._storage.read_exactly(found.name, 0, size) if size else b""
            return
        waiting: deque[tuple[Chunk, Future[bytes] | None]] = deque()
        for chunk in chunks_of(header):
            start = chunk.start * header.layout.block_bytes
            stop = min(start + chunk.blocks * header.layout.block_bytes, found.size)
            waiting.append((chunk, self._begin(found.name, start, stop)))
            if len(waiting) > CHUNKS_AHEAD:
                yield self._finish(*waiting.popleft())
        while waiting:
            yield self._finish(*waiting.popleft())

    def _begin(self, name: str, start: int, stop: int) -> Future[bytes] | None:
        if start == stop:
            return None
        return self._readers.submit(lambda: self._storage.read_exactly(name, start, stop))

    def _finish(self, chunk: Chunk, reading: Future[bytes] | None) -> tuple[Chunk, bytes]:
        try:
            return chunk, reading.result(STALL_SECONDS) if reading is not None else b""
        except TimeoutError as error:
            raise UnreachableError(
                f"{self._storage.address} did not answer for {STALL_SECONDS:.0f} seconds: try again"
            ) from error

    def _pages(self, header: TagHeader, chunk: Chunk, part: bytes) -> bytes:
        blocks = as_blocks(part, header.length, header.layout, chunk.start, chunk.blocks)
        tagger = self._taggers.get()
        try:
            tagger.begin_file(header.file_id, header.version, header.nonce)
            tags = tagger.tags(chunk.start, blocks)
        finally:
            self._taggers.put(tagger)
        return encode_pages(chunk.start // PAGE_TAGS, tags)


class SegmentDigest:
    """The SHA-256 of bytes as they come, of all of them and of each segment."""

    def __init__(self, length: int) -> None:
        """Make a digest of that many bytes. A single segment is hashed only once."""
        self._whole = hashlib.sha256()
        self._segment = self._whole if length <= SEGMENT_BYTES else hashlib.sha256()
        self._room = SEGMENT_BYTES  # in the present segment
        self._segments: list[bytes] = []

    def update(self, content: bytes) -> None:
        self._whole.update(content)
        view = memoryview(content)
        while view:
            part = view[: self._room]
            if self._segment is not self._whole:
                self._segment.update(part)
            view = view[len(part) :]
            self._room -= len(part)
            if not self._room:
                self._end_segment()

    def _end_segment(self) -> None:
        self._segments.append(self._segment.digest())
        self._segment, self._room = hashlib.sha256(), SEGMENT_BYTES

    @property
    def sha256(self) -> bytes:
        return self._whole.digest()

    @property
    def combined(self) -> bytes:
        """The digest by which a node knows all that has come."""
        if self._room < SEGMENT_BYTES:
            self._end_segment()
        return combine_digests(self._segments)


class _TagWriter:
    """Writes the tags of one object, segment by segment."""

    def __init__(self, store: TagStore, nonce: bytes, length: int) -> None:
        self._store, self._nonce = store, nonce
        self._buffer, self._number = bytearray(), 0
        self.digest = SegmentDigest(length)

    def write(self, content: bytes) -> None:
        self.digest.update(content)
        self._buffer += content
        while len(self._buffer) >= SEGMENT_BYTES:
            self._flush()

    def close(self) -> None:
        if self._buffer:
            self._flush()

    def _flush(self) -> None:
        segment = bytes(self._buffer[:SEGMENT_BYTES])
        self._store.write_tags(self._nonce, self._number, segment)
        del self._buffer[:SEGMENT_BYTES]
        self._number += 1
