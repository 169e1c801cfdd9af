"""How a file comes to a holding: announced, received segment by segment, checked, committed.

Everything that an upload brings lies under its own prefix. Until the holding's document names it,
it is no part of the holding. An interrupted upload resumes from the segments that are there.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import InputError
from holdfast.node.holding import Holding, Upload, check_inventory
from holdfast.node.layout import Layout, Part
from holdfast.node.record import FileRecord, HoldingRecord
from holdfast.node.segments import count_segments, segment_range
from holdfast.node.wire import Code, Missing, NodeRefusedError, UploadRequest
from holdfast.pdp import TagHeader
from holdfast.pdp.readers import sha256_of
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
            content = request.model_dump_json().encode()
            holding.layout.objects.write(holding.layout.request(upload), content)
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
    holding: Holding, upload: bytes, part: Part, number: int, content: bytes, now: float
) -> None:
    """Write one segment, which appears whole or not at all."""
    with holding.lock:
        known = _open(holding, upload)
        if known.closing:
            raise NodeRefusedError(Code.CONFLICT, "the upload is being committed")
        known.touched = now
        known.writers += 1
    try:
        holding.layout.objects.write(holding.layout.segment(upload, part, number), content)
    finally:
        with holding.lock:
            known.writers -= 1


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
        bytes.fromhex(request.data_sha256),
        bytes.fromhex(request.tags_sha256),
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
    """Raise unless all segments are there and hash to what was announced."""
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
    sound = sound and sha256_of(tags) == request.tags_sha256
    if sound and sha256_of(holding.reader(_record(upload), Part.DATA)) == request.data_sha256:
        return
    with holding.lock:
        for part, length in _lengths(request).items():
            for number in range(count_segments(length, layout.segment_bytes)):
                layout.objects.remove(layout.segment(upload.id, part, number))
    raise NodeRefusedError(
        Code.CHECKSUM,
        "the file or its tags are not what was announced, and were dropped: send them again",
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
