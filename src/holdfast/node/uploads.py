"""How a file comes to a holding: announced, received segment by segment, checked, committed.

Everything that an upload brings lies under its own prefix. Until the holding's document names it,
it is no part of the holding. An interrupted upload resumes from the segments that are there.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from holdfast.errors import InputError
from holdfast.node.holding import Holding, Upload, check_inventory
from holdfast.node.layout import Layout, Part
from holdfast.node.record import FileRecord, HoldingRecord
from holdfast.node.segments import combine_digests, count_segments, hash_segment, segment_range
from holdfast.node.wire import Code, Missing, NodeRefusedError, UploadRequest
from holdfast.pdp import TagHeader
from holdfast.pdp.tagfile import HEADER_BYTES


def begin(holding: Holding, request: UploadRequest, now: float) -> Upload:
    """Announce a file; the same announcement finds the same upload, even a committed one."""
    upload = request.id(holding.record.owner, holding.record.public.id)
    with holding.lock:
        if upload in holding.record.uploads:
            return Upload(upload, request, now)
        known = holding.uploads.get(upload)
        if known is None:
            _check(holding, request)
        if known is None or holding.layout.objects.size(holding.layout.request(upload)) is None:
            content = request.model_dump_json().encode()
            holding.layout.objects.write(holding.layout.request(upload), content)
        if known is None:
            known = holding.uploads[upload] = Upload(upload, request, now)
        known.touched = now
        return known


def missing(layout: Layout, upload: Upload) -> Missing:
    stored = {entry.name for entry in layout.objects.list(layout.upload(upload.id))}
    numbers = {
        part: [
            number
            for number in range(count_segments(length, layout.segment_bytes))
            if f"{part}.{number:08}" not in stored
        ]
        for part, length in _lengths(upload.request).items()
    }
    return Missing(data=numbers[Part.DATA], tags=numbers[Part.TAGS])


def segment_length(holding: Holding, upload: bytes, part: Part, number: int) -> int:
    """Return how many bytes this segment must have."""
    request = _open(holding, upload).request
    length = _lengths(request)[part]
    if number >= count_segments(length, holding.layout.segment_bytes):
        raise NodeRefusedError(Code.NOT_FOUND, f"the upload has no segment {number} of {part}")
    return segment_range(number, length, holding.layout.segment_bytes)[1]


def receive(
    holding: Holding,
    upload: bytes,
    part: Part,
    number: int,
    pieces: Iterable[bytes],
    now: float,
    *,
    expected: bytes | None = None,
) -> None:
    """Write one segment while it arrives; it appears whole or not at all.

    `expected` is the SHA-256 that it must have.
    """
    with holding.lock:
        known = _open(holding, upload)
        if known.closing:
            raise NodeRefusedError(Code.CONFLICT, "the upload is being committed")
        known.touched = now
        known.begin_segment((part, number))
    sha256 = None
    try:
        content = _HashedPieces(pieces, segment_length(holding, upload, part, number), expected)
        holding.layout.objects.write_pieces(holding.layout.segment(upload, part, number), content)
        sha256 = content.sha256
    finally:
        with holding.lock:
            known.end_segment((part, number), sha256)


class _HashedPieces:
    """Passes pieces on while it hashes them, and raises if they are not what was signed."""

    def __init__(self, pieces: Iterable[bytes], length: int, expected: bytes | None) -> None:
        self._pieces, self._length, self._expected = pieces, length, expected
        self.sha256 = b""  # once all have passed

    def __iter__(self) -> Iterator[bytes]:
        digest, size = hashlib.sha256(), 0
        for piece in self._pieces:
            digest.update(piece)
            size += len(piece)
            yield piece
        self.sha256 = digest.digest()
        if size != self._length:
            raise NodeRefusedError(
                Code.MALFORMED, f"the segment has {self._length} bytes, not {size}"
            )
        if self._expected not in {None, self.sha256}:
            raise NodeRefusedError(
                Code.SIGNATURE, "the request's body: its digest is another than the one signed"
            )


def commit(holding: Holding, upload: bytes, inventory_hash: bytes) -> bytes:
    """Check the whole file and make it part of the holding; return the inventory's hash."""
    with holding.lock:
        if upload in holding.record.uploads:
            return holding.record.inventory.hash
        known = _open(holding, upload)
    file = _record(known)
    with _closed(holding, known):
        with holding.lock:
            _resulting(holding, file, inventory_hash)
        _check_content(holding, known)
        with holding.lock:
            after = _resulting(holding, file, inventory_hash)
            holding.accept(after)
            return after.inventory.hash


def abort(holding: Holding, upload: bytes) -> None:
    """Forget an upload and remove what it brought. It may be gone already."""
    with holding.lock:
        known = holding.uploads.get(upload)
        if known is None:
            return
        if known.closing:
            raise NodeRefusedError(Code.CONFLICT, "the upload is being committed")
        del holding.uploads[upload]
        holding.layout.objects.remove(holding.layout.upload(upload))


def _open(holding: Holding, upload: bytes) -> Upload:
    known = holding.uploads.get(upload)
    if known is None:
        if upload in holding.record.uploads:
            raise NodeRefusedError(Code.CONFLICT, "the upload is committed already")
        raise NodeRefusedError(Code.NOT_FOUND, "there is no such upload: begin it again")
    return known


def _lengths(request: UploadRequest) -> dict[Part, int]:
    return {Part.DATA: 0 if request.in_place else request.length, Part.TAGS: request.tags_bytes}


def _record(upload: Upload) -> FileRecord:
    request = upload.request
    return FileRecord(
        bytes.fromhex(request.file_id),
        request.version,
        bytes.fromhex(request.nonce),
        request.length,
        bytes.fromhex(request.data_digest),
        bytes.fromhex(request.tags_digest),
        upload.id,
        request.in_place,
    )


def _header(holding: Holding, request: UploadRequest) -> TagHeader:
    public = holding.record.public
    file_id, nonce = bytes.fromhex(request.file_id), bytes.fromhex(request.nonce)
    return TagHeader(public.id, file_id, request.version, nonce, public.sectors, request.length)


def _check(holding: Holding, request: UploadRequest) -> None:
    """Raise if this could never be committed."""
    header = _header(holding, request)
    if request.tags_bytes != header.file_bytes:
        raise NodeRefusedError(
            Code.MALFORMED,
            f"the tags of {request.length} bytes under this key have {header.file_bytes} bytes, "
            f"not {request.tags_bytes}",
        )
    try:
        holding.record.inventory.with_file(header.entry)
    except InputError as error:
        raise NodeRefusedError(Code.CONFLICT, str(error)) from error
    if request.in_place is not None:
        check_in_place(holding, request)


def check_in_place(holding: Holding, request: UploadRequest) -> None:
    """Raise unless the node's other storage has a file of that name and length."""
    path = request.in_place or ""
    if holding.data is None:
        raise NodeRefusedError(
            Code.FORBIDDEN, "the node keeps no files in place: it was started without --data"
        )
    names = path.split("/")
    if any(name in {"", ".", ".."} for name in names) or not path.isprintable() or "\\" in path:
        raise NodeRefusedError(
            Code.MALFORMED, "a path in place is relative, without '.', '..', '//' or '\\'"
        )
    size = holding.data.size(path) if holding.data.holds(path) else None
    if size is None:
        raise NodeRefusedError(Code.NOT_FOUND, f"there is no file {path!r} in place")
    if size != request.length:
        raise NodeRefusedError(
            Code.CHECKSUM, f"{path!r} has {size} bytes, not the {request.length} announced"
        )


def _resulting(holding: Holding, file: FileRecord, inventory_hash: bytes) -> HoldingRecord:
    """Return the record with the file in it, if that is what the owner expects."""
    known = holding.record.by_id.get(file.file_id)
    if known is not None and known.version >= file.version:
        raise NodeRefusedError(
            Code.CONFLICT, f"the holding has version {known.version} of the file already"
        )
    after = holding.record.with_file(file)
    check_inventory(after, inventory_hash)
    return after


def _check_content(holding: Holding, upload: Upload) -> None:
    """Raise unless all segments are there, for good, and hash to what was announced.

    Segments that an earlier process received are read and hashed again.
    """
    request, layout = upload.request, holding.layout
    absent = missing(layout, upload)
    if absent.data or absent.tags:
        raise NodeRefusedError(
            Code.INCOMPLETE,
            f"{len(absent.data)} segments of data and {len(absent.tags)} of tags have not come yet",
        )
    if request.in_place is not None:
        check_in_place(holding, request)
    tags = holding.reader(_record(upload), Part.TAGS)
    (head,) = tags.read_many([(0, HEADER_BYTES)])
    sound = head == _header(holding, request).encode()
    sound = sound and _digest(holding, upload, Part.TAGS).hex() == request.tags_digest
    if sound and _digest(holding, upload, Part.DATA).hex() == request.data_digest:
        layout.objects.sync(layout.upload(upload.id))
        return
    with holding.lock:
        upload.digests.clear()
        for part, length in _lengths(request).items():
            for number in range(count_segments(length, layout.segment_bytes)):
                layout.objects.remove(layout.segment(upload.id, part, number))
    raise NodeRefusedError(
        Code.CHECKSUM,
        "the file or its tags are not what was announced, and were dropped: send them again",
    )


def _digest(holding: Holding, upload: Upload, part: Part) -> bytes:
    """Return the digest of all that was stored of a part."""
    reader, size = holding.reader(_record(upload), part), holding.layout.segment_bytes
    return combine_digests(
        upload.digests.get((part, number)) or hash_segment(reader, number, size)
        for number in range(count_segments(reader.size(), size))
    )


@contextmanager
def _closed(holding: Holding, upload: Upload) -> Iterator[None]:
    """Keep the segments as they are while they are checked."""
    with holding.lock:
        if upload.closing:
            raise NodeRefusedError(Code.CONFLICT, "the upload is being committed already")
        if upload.writers:
            raise NodeRefusedError(Code.CONFLICT, "segments of the upload are still being written")
        upload.closing = True
    try:
        yield
    finally:
        with holding.lock:
            upload.closing = False
