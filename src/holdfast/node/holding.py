"""One holding as a node stores it: its accepted state, and what is read, proved and replaced in it.

The record changes only when its document is replaced. A reader works on the record as it was when
the reading began.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from time import monotonic

import numpy as np

from holdfast.errors import InputError
from holdfast.node.daemon_pool import DaemonPool
from holdfast.node.layout import Layout, Part
from holdfast.node.objects import Folder, LostError, Objects
from holdfast.node.record import FileRecord, HoldingRecord
from holdfast.node.segments import SegmentedReader, single_object
from holdfast.node.wire import Code, HoldingFacts, NodeRefusedError, RepairTarget, UploadRequest
from holdfast.pdp import Challenge, MapParts, Proof, Prover, StoredFile, TagFile
from holdfast.pdp.limbs import Bytes
from holdfast.pdp.readers import Range
from holdfast.pdp.spans import Span, Spans
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES, PAGE_TAGS, decode_pages, encode_pages
from holdfast.pdp.tags import TAG_BYTES

DOCUMENT_CHECK_SECONDS = 60.0  # between two looks at a document in a bucket, by proofs
SegmentName = tuple[Part, int]
Replace = Callable[[bytes, Sequence[Span], bytes], None]  # file, spans, content


@dataclass
class Upload:
    """An upload that has begun and not ended. The owner's lock guards it."""

    id: bytes
    request: UploadRequest
    touched: float
    closing: bool = False  # being checked: no segment may change any more
    digests: dict[SegmentName, bytes] = field(default_factory=dict)  # SHA-256 of those received
    writing: Counter[SegmentName] = field(default_factory=Counter)  # requests that write it now
    contested: set[SegmentName] = field(default_factory=set)  # written by several at once

    @property
    def writers(self) -> int:
        return self.writing.total()

    def begin_segment(self, name: SegmentName) -> None:
        self.digests.pop(name, None)
        if self.writing[name]:
            self.contested.add(name)
        self.writing[name] += 1

    def end_segment(self, name: SegmentName, sha256: bytes | None) -> None:
        """Keep the digest of what was written, if nobody else can have written it meanwhile."""
        self.writing[name] -= 1
        if name not in self.contested and sha256 is not None:
            self.digests[name] = sha256
        if not self.writing[name]:
            self.contested.discard(name)
            del self.writing[name]


class Holding:
    """A holding and its unfinished uploads.

    The lock is the owner's: it guards the record and the uploads, and is held while one of them is
    written, never while bytes are received, hashed or proved.
    """

    def __init__(
        self,
        layout: Layout,
        record: HoldingRecord,
        data: Objects | None,
        lock: RLock,
        document_bytes: int | None = None,
    ) -> None:
        """Open a holding; without `document_bytes`, others keep its document."""
        self.layout, self.record, self.data, self.lock = layout, record, data, lock
        self.uploads: dict[bytes, Upload] = {}
        self.removed = False
        self._document_bytes = document_bytes
        # A look into a bucket is a request. Into a folder it takes microseconds.
        self._check_seconds = 0.0 if isinstance(layout.objects, Folder) else DOCUMENT_CHECK_SECONDS
        self._next_check = 0.0
        self._stored: dict[bytes, StoredFile] = {}
        at_once = max(place.files_at_once for place in (layout.objects, data or layout.objects))
        self._map_parts: MapParts = map if at_once == 1 else DaemonPool(at_once).map

    @property
    def facts(self) -> HoldingFacts:
        record = self.record
        return HoldingFacts(
            key_id=record.public.id.hex(),
            files=len(record.files),
            blocks=record.inventory.blocks,
            bytes=sum(file.length for file in record.files),
            inventory_hash=record.inventory.hash.hex(),
        )

    @property
    def reserved_bytes(self) -> int:
        """What counts against the owner's quota, unfinished uploads included."""
        begun = sum(upload.request.stored_bytes for upload in self.uploads.values())
        return self.record.stored_bytes + begun

    def accept(self, record: HoldingRecord) -> None:
        """Make this the state of the holding: the one moment at which it changes."""
        self._write_document(record)
        dropped = self.record.uploads - record.uploads
        self.record = record
        for upload in record.uploads & self.uploads.keys():
            del self.uploads[upload]
            # Without its announcement it can't be taken for unfinished once it is dropped.
            self.layout.objects.remove(self.layout.request(upload))
        for upload in dropped:
            self._stored.pop(upload, None)
            self.layout.objects.remove(self.layout.upload(upload))

    def ensure_document(self) -> None:
        """Write the document again if it was deleted or cut: a restart would lose the holding."""
        if self._has_document():
            return
        with self.lock:
            if not self.removed and not self._has_document():
                self._write_document(self.record)

    def _write_document(self, record: HoldingRecord) -> None:
        document = record.encode()
        self.layout.objects.write(self.layout.document, document)
        self._document_bytes = len(document)

    def _has_document(self) -> bool:
        expected = self._document_bytes
        return expected is None or self.layout.objects.size(self.layout.document) == expected

    def delete_file(self, file_id: bytes, before: bytes, after: bytes) -> None:
        """Take a file out of the inventory `before`, which makes it `after`.

        The same request again finds it gone. One that comes when the file has another version, or
        the holding other files, is refused.
        """
        with self.lock:
            record = self.record.without_file(file_id)
            if file_id not in self.record.by_id:
                if record.inventory.hash != after:
                    raise _no_file(file_id)
                return
            self.check_current(before)
            check_inventory(record, after)
            self.accept(record)

    def file(self, file_id: bytes) -> FileRecord:
        file = self.record.by_id.get(file_id)
        if file is None:
            raise _no_file(file_id)
        return file

    def reader(self, file: FileRecord, part: Part) -> SegmentedReader:
        if part is Part.TAGS:
            length = file.header(self.record.public).file_bytes
            return self.layout.reader(file.upload, part, length)
        if file.in_place is None:
            return self.layout.reader(file.upload, part, file.length)
        if self.data is None:
            raise NodeRefusedError(
                Code.STORAGE, "the node was started without the storage that has this file"
            )
        return single_object(self.data, file.in_place, file.length)

    def prove(self, challenge: Challenge) -> Proof:
        record = self.record
        inventory = record.inventory
        if (challenge.inventory_hash, challenge.blocks) != (inventory.hash, inventory.blocks):
            raise NodeRefusedError(
                Code.INVENTORY,
                "the challenge is for another inventory than the node's: owner and node disagree "
                "on what is stored",
            )
        if (now := monotonic()) >= self._next_check:
            self._next_check = now + self._check_seconds
            self.ensure_document()
        with self._reading(record):
            return Prover(inventory, _Stored(self, record), self._map_parts).prove(challenge)

    def blocks(self, file_id: bytes, spans: Sequence[Span]) -> list[bytes]:
        """Return the content of these spans, the file's last block without its padding."""
        record, file = self.record, self.file(file_id)
        self._check_spans(file, spans)
        with self._reading(record):
            return self.reader(file, Part.DATA).read_many(self._ranges(file, spans))

    def tags(self, file_id: bytes, spans: Sequence[Span]) -> bytes:
        """Return the tags of these spans, one after another."""
        record, file = self.record, self.file(file_id)
        self._check_spans(file, spans)
        with self._reading(record):
            tags: bytes = self.stored_file(file).tags.tags(Spans(tuple(spans)).blocks).tobytes()
        return tags

    def check_current(self, inventory_hash: bytes) -> None:
        """Raise unless the holding is in the state that a request names. Hold the lock."""
        if self.record.inventory.hash != inventory_hash:
            raise NodeRefusedError(
                Code.INVENTORY,
                "the request is for another inventory than the node's: the holding has changed "
                "since it was signed, or owner and node disagree on what is stored",
            )

    def repair(
        self, target: RepairTarget, replace: Replace, spans: Sequence[Span], content: bytes
    ) -> None:
        """Replace blocks or tags, if the repair is for what the node has now."""
        with self.lock:
            version = self.file(target.file_id).version
            if version != target.version:
                raise NodeRefusedError(
                    Code.CONFLICT,
                    f"the repair is for version {target.version} of the file, and the node has "
                    f"version {version}",
                )
            self.check_current(target.inventory_hash)
            self.ensure_document()
            replace(target.file_id, spans, content)

    def replace_blocks(self, file_id: bytes, spans: Sequence[Span], content: bytes) -> None:
        """Put blocks back into their places, rewriting every segment once."""
        with self.lock:
            file = self._replaceable(file_id, spans)
            if file.in_place is not None:
                raise NodeRefusedError(
                    Code.CONFLICT, "the file is kept in place, where the node does not write"
                )
            ranges = self._ranges(file, spans)
            _check_bytes("blocks", sum(length for _, length in ranges), content)
            view, patches = memoryview(content), []
            for offset, length in ranges:
                patches.append((offset, view[:length]))
                view = view[length:]
            self._patch(file, Part.DATA, patches)

    def replace_tags(self, file_id: bytes, spans: Sequence[Span], content: bytes) -> None:
        """Put tags back into their places, rewriting every segment once."""
        with self.lock:
            file = self._replaceable(file_id, spans)
            blocks = Spans(tuple(spans)).blocks
            _check_bytes("tags", TAG_BYTES * len(blocks), content)
            rows = np.frombuffer(content, np.uint8).reshape(-1, TAG_BYTES)
            patches = []
            for first, last in Spans.of_blocks(np.unique(blocks // PAGE_TAGS)):
                start, tags = first * PAGE_TAGS, self._tags_of_pages(file, first, last)
                inside = (blocks >= start) & (blocks < start + len(tags))
                tags[blocks[inside] - start] = rows[inside]
                patches.append((HEADER_BYTES + first * PAGE_BYTES, encode_pages(first, tags)))
            self._patch(file, Part.TAGS, patches)

    def stored_file(self, file: FileRecord) -> StoredFile:
        """Return the file for proving, opened once: it holds no handle, only the tags' header."""
        known = self._stored.get(file.upload)
        if known is None:
            tags = TagFile(self.reader(file, Part.TAGS))
            known = StoredFile(self.reader(file, Part.DATA), tags)
            self._stored[file.upload] = known
        return known

    @contextmanager
    def _reading(self, record: HoldingRecord) -> Iterator[None]:
        """Refuse what can't be read: as damaged, or as changed meanwhile."""
        try:
            yield
        except TimeoutError as error:
            raise NodeRefusedError(
                Code.STORAGE, "the node's storage did not answer in time"
            ) from error
        except (InputError, LostError) as error:
            if self.record is not record:
                raise NodeRefusedError(
                    Code.INVENTORY, "the holding changed while it was being read: ask again"
                ) from error
            raise NodeRefusedError(Code.DAMAGED, "what was stored is damaged") from error

    def _check_spans(self, file: FileRecord, spans: Sequence[Span]) -> None:
        blocks = file.header(self.record.public).blocks
        if spans[-1][1] > blocks:
            raise NodeRefusedError(
                Code.NOT_FOUND, f"the file has {blocks} blocks, and none with index {blocks}"
            )

    def _ranges(self, file: FileRecord, spans: Sequence[Span]) -> list[Range]:
        """Return the bytes of these spans: offsets and lengths."""
        size = self.record.public.layout.block_bytes
        return [(a * size, min(b * size, file.length) - a * size) for a, b in spans]

    def _replaceable(self, file_id: bytes, spans: Sequence[Span]) -> FileRecord:
        file = self.file(file_id)
        self._check_spans(file, spans)
        return file

    def _tags_of_pages(self, file: FileRecord, first: int, last: int) -> Bytes:
        """Return the tags of the pages from `first` up to `last`, right or wrong, to be changed."""
        end = file.header(self.record.public).file_bytes
        start = HEADER_BYTES + first * PAGE_BYTES
        stop = min(HEADER_BYTES + last * PAGE_BYTES, end)
        return decode_pages(first, self._content(file, Part.TAGS, start, stop - start))[0].copy()

    def _patch(
        self, file: FileRecord, part: Part, patches: Sequence[tuple[int, bytes | memoryview]]
    ) -> None:
        """Write these bytes at their offsets, segment by segment."""
        pieces: dict[int, list[tuple[int, memoryview]]] = {}
        for offset, content in patches:
            view = memoryview(content)
            for number, inner, done, length in self._pieces(offset, len(content)):
                pieces.setdefault(number, []).append((inner, view[done : done + length]))
        objects = self.layout.objects
        for number, patched in sorted(pieces.items()):
            if part is Part.TAGS and number == 0:
                header = memoryview(file.header(self.record.public).encode())
                patched.insert(0, (0, header))
            segment = self._merge(file, part, number, patched)
            objects.write_pieces(self.layout.segment(file.upload, part, number), segment)
        objects.sync(self.layout.upload(file.upload))
        self._stored.pop(file.upload, None)

    def _merge(
        self, file: FileRecord, part: Part, number: int, patches: Sequence[tuple[int, memoryview]]
    ) -> Iterator[memoryview]:
        """Yield a segment in pieces: the patches, and between them what is stored."""
        length = self._segment_length(file, part, number)
        whole = sum(len(content) for _, content in patches) == length
        stored = memoryview(b"" if whole else self._segment(file, part, number))
        at = 0
        for inner, content in patches:
            yield stored[at:inner]
            yield content
            at = inner + len(content)
        yield stored[at:]

    def _content(self, file: FileRecord, part: Part, offset: int, length: int) -> bytes:
        return b"".join(
            self._segment(file, part, number)[inner : inner + count]
            for number, inner, _, count in self._pieces(offset, length)
        )

    def _pieces(self, offset: int, length: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the segments of a range: number, offset within, bytes before, bytes."""
        done = 0
        while done < length:
            number, inner = divmod(offset + done, self.layout.segment_bytes)
            count = min(self.layout.segment_bytes - inner, length - done)
            yield number, inner, done, count
            done += count

    def _segment(self, file: FileRecord, part: Part, number: int) -> bytes:
        """Return a segment in its full length, with zeros for what was lost."""
        length = self._segment_length(file, part, number)
        content = self.layout.objects.read(self.layout.segment(file.upload, part, number)) or b""
        return content if len(content) == length else content[:length].ljust(length, b"\0")

    def _segment_length(self, file: FileRecord, part: Part, number: int) -> int:
        size = self.layout.segment_bytes
        return min(size, self.reader(file, part).length - number * size)


def _check_bytes(what: str, expected: int, content: bytes) -> None:
    if len(content) != expected:
        raise NodeRefusedError(
            Code.MALFORMED, f"these {what} have {expected} bytes, not {len(content)}"
        )


class _Stored(Mapping[bytes, StoredFile]):
    """The files of a record, opened when a challenge asks for them."""

    def __init__(self, holding: Holding, record: HoldingRecord) -> None:
        self._holding, self._record = holding, record

    def __getitem__(self, file_id: bytes) -> StoredFile:
        return self._holding.stored_file(self._record.by_id[file_id])

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._record.by_id)

    def __len__(self) -> int:
        return len(self._record.files)


def check_inventory(record: HoldingRecord, expected: bytes) -> None:
    if record.inventory.hash != expected:
        raise NodeRefusedError(
            Code.INVENTORY,
            "the inventory would have another hash than the one expected: owner and node disagree "
            "on what is stored",
        )


def _no_file(file_id: bytes) -> NodeRefusedError:
    return NodeRefusedError(Code.NOT_FOUND, f"the holding has no file {file_id.hex()}")
