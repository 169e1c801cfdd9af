"""Puts a file on a node: saves the intent, tags, uploads, commits, then updates the catalogue.

An interrupted command resumes when it is run again. The intent binds a nonce to the SHA-256 of one
content. Tags are made once under a nonce, and nothing but that content is encrypted and sent under
it: where tags are missing, or the content is another one, a fresh nonce is drawn.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.errors import InputError, RefusedError
from holdfast.node.lanes import lanes
from holdfast.node.layout import Part
from holdfast.node.segments import SEGMENT_BYTES, combine_digests, hash_segment
from holdfast.node.wire import Code, NodeRefusedError, UploadRequest
from holdfast.owner.catalogue import Catalogue, FileRecord, Intent
from holdfast.owner.fingerprint import ChangedError, MeasuredSource, Original, Progress, measure
from holdfast.owner.holding import Holding
from holdfast.owner.names import check_name
from holdfast.pdp import Location, tag_file
from holdfast.pdp.keys import FILE_ID_BYTES, draw_nonce
from holdfast.pdp.readers import Source


@dataclass(frozen=True)
class UploadResult:
    """`sent` counts bytes of data and tags: none if the node had the file already."""

    file: FileRecord
    sent: int


def put(
    holding: Holding,
    name: str,
    original: Original,
    *,
    in_place: str | None = None,
    replace_other: bool = False,
    processes: int | None = None,
    on_progress: Progress = lambda _bytes: None,
) -> UploadResult:
    """Put a file on the node; `on_progress` counts its length twice, for tagging and for sending.

    A file `in_place` lies by that path in the storage beside the node, and only its tags are sent.
    A file of the same name from another path is replaced only with `replace_other`. Nobody else may
    change the holding meanwhile.
    """
    check_name(name)
    if in_place is not None and holding.cipher_secret is not None:
        raise InputError(
            f"holding {holding.name!r} is encrypted, and a file in place is not: name another one"
        )
    length = original.content.length
    if not replace_other:
        check_source(holding.catalogue, holding.name, name, original)
    intent = _intent(holding, name, original)
    if intent is None:
        if holding.file(name).source != original.absolute_source:
            holding.catalogue.move_source(holding.name, name, original.absolute_source)
        on_progress(2 * length)
        return UploadResult(holding.file(name), 0)
    tags = holding.tags_path(intent.file)
    try:
        if not tags.exists():
            _tag(holding, intent.file, original, tags, processes, on_progress)
        after = intent.after(holding.inventory).hash
        done = _send(
            holding,
            intent.file,
            original,
            tags,
            in_place,
            after,
            lambda n: on_progress(length + n),
            is_new=True,
        )
    except ChangedError:
        abandon(holding, holding.catalogue.intent(holding.name, name) or intent)
        raise
    holding.catalogue.conclude(holding.name, replace(intent, file=done.file))
    holding.sweep()
    return done


def put_again(
    holding: Holding,
    file: FileRecord,
    original: Original,
    after: bytes,
    on_progress: Progress = lambda _bytes: None,
) -> None:
    """Put a file back as it was, under its old nonce, on a node that has lost it.

    `after` is the hash of the node's inventory with the file. Nothing is sent unless content and
    tags are those of before.
    """
    tags = holding.tags_path(file)
    if original.content.sha256 != file.sha256:
        raise ChangedError(original.source.address)
    _tag(holding, file, original, tags, None, lambda _bytes: None)
    if measure(Location(str(tags)), SEGMENT_BYTES).sha256 != file.tags_sha256:
        raise RefusedError(f"the tags of {file.name!r} would be others than before")
    _send(holding, file, original, tags, None, after, on_progress)
    tags.unlink()


def abandon(holding: Holding, intent: Intent) -> None:
    """Give up an upload."""
    if intent.upload is not None:
        holding.node.abort(holding.key_id, intent.upload.hex())
    holding.catalogue.abandon(holding.name, intent)
    holding.sweep()


def check_source(catalogue: Catalogue, holding: str, name: str, original: Original) -> None:
    """Raise if the holding has another file of that name, or one is being uploaded.

    An upload of the same content resumes from any path: nothing is replaced.
    """
    pending = catalogue.intent(holding, name)
    check_path(catalogue, holding, name, original.absolute_source)
    if pending and pending.file.sha256 != original.content.sha256:
        _check_same_file(holding, pending.file, original.absolute_source)


def check_path(catalogue: Catalogue, holding: str, name: str, source: str) -> None:
    """Raise if the holding has a file of that name from another path."""
    file = catalogue.file(holding, name)
    if file is not None:
        _check_same_file(holding, file, source)


def _check_same_file(holding: str, file: FileRecord, source: str) -> None:
    if not _is_same_file(file.source, source):
        raise InputError(
            f"holding {holding!r} has {file.name!r} from {file.source}, and {source} is another "
            "file: give it another name with --name, or replace the first one with --replace"
        )


def _is_same_file(one: str, other: str) -> bool:
    try:
        return one == other or Path(one).samefile(other)
    except (OSError, ValueError):  # an address, or a path with nothing at it any more
        return False


def _intent(holding: Holding, name: str, original: Original) -> Intent | None:
    """Save and return what is to be done; None if the node has this very file.

    An intent without its tags starts again, because tags are made once under a nonce.
    """
    catalogue = holding.catalogue
    held, pending = catalogue.file(holding.name, name), catalogue.intent(holding.name, name)
    wanted = (original.content.length, original.content.sha256)
    unchanged = False
    if pending:
        unchanged = (pending.file.length, pending.file.sha256) == wanted and not pending.removes
        if unchanged and holding.tags_path(pending.file).exists():
            return pending
        abandon(holding, pending)
    if held and (held.length, held.sha256) == wanted:
        return None
    known = [file for file in (held, pending and pending.file) if file]
    file_id = known[0].file_id if known else secrets.token_bytes(FILE_ID_BYTES)
    version = max((file.version for file in known), default=0) + (0 if unchanged else 1)
    source, nonce = original.absolute_source, draw_nonce()
    intent = Intent(FileRecord(name, source, file_id, version, nonce, *wanted))
    catalogue.intend(holding.name, intent)
    return intent


def _tag(
    holding: Holding,
    file: FileRecord,
    original: Original,
    tags: Path,
    processes: int | None,
    on_progress: Progress,
) -> None:
    """Write the tags. They get their name only when they are known to be of this content."""
    doubtful = tags.with_suffix(".doubtful")
    tag_file(
        holding.stored_form(file, original.source),
        holding.key,
        file_id=file.file_id,
        version=file.version,
        nonce=file.nonce,
        out=doubtful,
        processes=processes,
        progress=on_progress,
    )
    original.check()
    doubtful.replace(tags)


def _send(
    holding: Holding,
    intended: FileRecord,
    original: Original,
    tags: Path,
    in_place: str | None,
    after: bytes,
    on_progress: Progress,
    *,
    is_new: bool = False,
) -> UploadResult:
    """Upload what the node is missing and have it committed; save the intent if it is new."""
    node, key_id = holding.node, holding.key_id
    segment_bytes = node.segment_bytes(max(intended.length, tags.stat().st_size))
    source, data = _stored_form(holding, intended, original, segment_bytes)
    tag_source = Location(str(tags))
    tagged = measure(tag_source, segment_bytes)
    original.check()
    file = replace(intended, tags_sha256=tagged.sha256)
    request = UploadRequest(
        file_id=file.file_id.hex(),
        version=file.version,
        nonce=file.nonce.hex(),
        length=file.length,
        data_digest=combine_digests(data).hex(),
        tags_bytes=tagged.length,
        tags_digest=tagged.digest.hex(),
        in_place=in_place,
    )
    if is_new:
        upload = request.id(holding.owner, key_id)
        holding.catalogue.intend(holding.name, Intent(file, upload=upload))
    sent = 0

    def reach(done: int) -> None:
        nonlocal sent
        sent = done
        on_progress(min(done, file.length))

    with (
        source.open() as data_reader,
        tag_source.open() as tag_reader,
        _blaming_changes(original),
    ):
        node.upload(
            key_id,
            request,
            data_reader,
            tag_reader,
            after,
            segment_bytes=segment_bytes,
            digests={Part.DATA: data, Part.TAGS: tagged.segments},
            on_progress=reach,
        )
    return UploadResult(file, sent)


def _stored_form(
    holding: Holding, file: FileRecord, original: Original, segment_bytes: int
) -> tuple[Source, Sequence[bytes]]:
    """Return the file as the node gets it, and the SHA-256 of each segment of that.

    Nothing but the measured content is ever encrypted.
    """
    plain = original.in_segments(segment_bytes)
    if holding.cipher_secret is None:
        return original.source, plain.segments
    source = holding.stored_form(file, MeasuredSource(original.source, plain))
    with source.open() as reader:
        numbers = range(len(plain.segments))
        with lanes(lambda number: hash_segment(reader, number, segment_bytes), numbers) as digests:
            return source, list(digests)


@contextmanager
def _blaming_changes(original: Original) -> Iterator[None]:
    """Raise `ChangedError` where the node got other bytes than were signed, if the file changed."""
    try:
        yield
    except NodeRefusedError as error:
        if error.code is Code.SIGNATURE:
            original.measure_again()
        raise
