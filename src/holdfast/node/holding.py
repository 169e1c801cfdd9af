"""One holding as a node stores it: its accepted state, and what is read, proved and replaced in it.

The record changes only when its document is replaced. A reader works on the record as it was when
the reading began.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock

import numpy as np

from holdfast.errors import InputError, StorageError
from holdfast.node.layout import Layout, Part
from holdfast.node.objects import LostError, Objects
from holdfast.node.record import FileRecord, HoldingRecord
from holdfast.node.segments import SegmentedReader, single_object
from holdfast.node.wire import Code, HoldingFacts, NodeRefusedError, RepairTarget, UploadRequest
from holdfast.pdp import Challenge, Proof, Prover, StoredFile, TagFile
from holdfast.pdp.limbs import Bytes
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES, PAGE_TAGS, encode_pages
from holdfast.pdp.tags import TAG_BYTES

Replace = Callable[[bytes, Sequence[int], bytes], None]  # file, indices, content


@dataclass
class Upload:
    """An upload that has begun and not ended. The owner's lock guards it."""

    id: bytes
    request: UploadRequest
    touched: float
    writers: int = 0  # segments being written now
    closing: bool = False  # being checked: no segment may change any more


class Holding:
    """A holding and its unfinished uploads.

    The lock is the owner's: it guards the record and the uploads, and is held while one of them is
    written, never while bytes are received, hashed or proved.
    """

    def __init__(
        self, layout: Layout, record: HoldingRecord, data: Objects | None, lock: RLock
    ) -> None:
        self.layout, self.record, self.data, self.lock = layout, record, data, lock
        self.uploads: dict[bytes, Upload] = {}
        self._stored: dict[bytes, StoredFile] = {}

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
        self.layout.objects.write(self.layout.document, record.encode())
        dropped = self.record.uploads - record.uploads
        self.record = record
        for upload in record.uploads & self.uploads.keys():
            del self.uploads[upload]
            # Without its announcement it can't be taken for unfinished once it is dropped.
            self.layout.objects.remove(self.layout.request(upload))
        for upload in dropped:
            self._stored.pop(upload, None)
            self.layout.objects.remove(self.layout.upload(upload))

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
            raise StorageError("the node was started without the storage that has this file")
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
        with self._reading(record):
            return Prover(inventory, _Stored(self, record)).prove(challenge)

    def blocks(self, file_id: bytes, indices: Sequence[int]) -> list[bytes]:
        """Return these blocks, the file's last one without its padding."""
        record, file = self.record, self.file(file_id)
        size = record.public.layout.block_bytes
        self._check_indices(file, indices)
        ranges = [(index * size, min(size, file.length - index * size)) for index in indices]
        with self._reading(record):
            return self.reader(file, Part.DATA).read_many(ranges)

    def tags(self, file_id: bytes, indices: Sequence[int]) -> list[bytes]:
        record, file = self.record, self.file(file_id)
        self._check_indices(file, indices)
        ascending, where = np.unique(np.array(indices, np.int64), return_inverse=True)
        with self._reading(record):
            rows = self.stored_file(file).tags.tags(ascending)[where]
        return [row.tobytes() for row in rows]

    def check_current(self, inventory_hash: bytes) -> None:
        """Raise unless the holding is in the state that a request names. Hold the lock."""
        if self.record.inventory.hash != inventory_hash:
            raise NodeRefusedError(
                Code.INVENTORY,
                "the request is for another inventory than the node's: the holding has changed "
                "since it was signed, or owner and node disagree on what is stored",
            )

    def repair(
        self, target: RepairTarget, replace: Replace, indices: Sequence[int], content: bytes
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
            replace(target.file_id, indices, content)

    def replace_blocks(self, file_id: bytes, indices: Sequence[int], content: bytes) -> None:
        """Put blocks back into their places, rewriting every segment once."""
        with self.lock:
            file = self._replaceable(file_id, indices)
            size = self.record.public.layout.block_bytes
            lengths = [min(size, file.length - index * size) for index in indices]
            if len(content) != sum(lengths):
                raise NodeRefusedError(
                    Code.MALFORMED, f"these blocks have {sum(lengths)} bytes, not {len(content)}"
                )
            ends = np.cumsum(lengths).tolist()
            parts = [content[end - n : end] for end, n in zip(ends, lengths, strict=True)]
            offsets = [index * size for index in indices]
            self._patch(file, Part.DATA, list(zip(offsets, parts, strict=True)))

    def replace_tags(self, file_id: bytes, indices: Sequence[int], content: bytes) -> None:
        """Put tags back into their places, rewriting every segment once."""
        with self.lock:
            file = self._replaceable(file_id, indices)
            if len(content) != TAG_BYTES * len(indices):
                raise NodeRefusedError(
                    Code.MALFORMED,
                    f"these tags have {TAG_BYTES * len(indices)} bytes, not {len(content)}",
                )
            pages: dict[int, bytearray] = {}
            for row, index in enumerate(indices):
                number, inner = divmod(index, PAGE_TAGS)
                if number not in pages:
                    pages[number] = self._tags_of_page(file, number)
                tag = content[row * TAG_BYTES : (row + 1) * TAG_BYTES]
                pages[number][inner * TAG_BYTES : (inner + 1) * TAG_BYTES] = tag
            self._patch(
                file,
                Part.TAGS,
                [
                    (HEADER_BYTES + number * PAGE_BYTES, encode_pages(number, _rows(body)))
                    for number, body in pages.items()
                ],
            )

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
        except (InputError, LostError) as error:
            if self.record is not record:
                raise NodeRefusedError(
                    Code.INVENTORY, "the holding changed while it was being read: ask again"
                ) from error
            raise NodeRefusedError(Code.DAMAGED, f"what was stored is damaged: {error}") from error

    def _check_indices(self, file: FileRecord, indices: Sequence[int]) -> None:
        blocks = file.header(self.record.public).blocks
        beyond = next((index for index in indices if not 0 <= index < blocks), None)
        if beyond is not None:
            raise NodeRefusedError(
                Code.NOT_FOUND, f"the file has {blocks} blocks, and none with index {beyond}"
            )

    def _replaceable(self, file_id: bytes, indices: Sequence[int]) -> FileRecord:
        file = self.file(file_id)
        self._check_indices(file, indices)
        if file.in_place is not None:
            raise NodeRefusedError(
                Code.CONFLICT, "the file is kept in place, where the node does not write"
            )
        return file

    def _tags_of_page(self, file: FileRecord, number: int) -> bytearray:
        blocks = file.header(self.record.public).blocks
        count = min(PAGE_TAGS, blocks - number * PAGE_TAGS)
        offset = HEADER_BYTES + number * PAGE_BYTES
        return bytearray(self._content(file, Part.TAGS, offset, count * TAG_BYTES))

    def _patch(self, file: FileRecord, part: Part, patches: Sequence[tuple[int, bytes]]) -> None:
        """Write these bytes at their offsets, segment by segment."""
        pieces: dict[int, list[tuple[int, bytes]]] = {}
        for offset, content in patches:
            for number, inner, done, length in self._pieces(offset, len(content)):
                pieces.setdefault(number, []).append((inner, content[done : done + length]))
        for number, patched in sorted(pieces.items()):
            segment = self._segment(file, part, number)
            for inner, content in patched:
                segment[inner : inner + len(content)] = content
            if part is Part.TAGS and number == 0:
                segment[:HEADER_BYTES] = file.header(self.record.public).encode()
            self.layout.objects.write(self.layout.segment(file.upload, part, number), segment)
        self._stored.pop(file.upload, None)

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

    def _segment(self, file: FileRecord, part: Part, number: int) -> bytearray:
        """Return a segment in its full length, with zeros for what was lost."""
        size = self.layout.segment_bytes
        length = min(size, self.reader(file, part).length - number * size)
        content = self.layout.objects.read(self.layout.segment(file.upload, part, number))
        return bytearray((content or b"")[:length].ljust(length, b"\0"))


def _rows(tags: bytearray) -> Bytes:
    return np.frombuffer(tags, np.uint8).reshape(-1, TAG_BYTES)


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
