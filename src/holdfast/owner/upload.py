"""A file put on a node: intent, tags, upload, commit, and only then the catalogue.

Whatever interrupts it, the same command goes on where it stopped. A version is bound to one content
before anything made from it leaves the owner: by the intent to the file's SHA-256, by the journal
to its tags.
"""

import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.errors import InputError, RefusedError
from holdfast.node.wire import UploadRequest
from holdfast.owner.catalogue import FileRecord, Intent
from holdfast.owner.content import ChangedError, Content, Measured, Original, Progress, measure
from holdfast.owner.holding import Holding
from holdfast.pdp import Location, tag_file
from holdfast.pdp.keys import FILE_ID_BYTES
from holdfast.pdp.readers import Source


@dataclass(frozen=True)
class Put:
    """What came of it: `sent` bytes of data and tags, none if the node had the file already."""

    file: FileRecord
    sent: int


def put(
    holding: Holding,
    name: str,
    original: Original,
    *,
    in_place: str | None = None,
    processes: int | None = None,
    progress: Progress = lambda _bytes: None,
) -> Put:
    """Put a file on the node; `progress` counts its length twice, for tagging and for sending.

    A file `in_place` lies by that path in the storage beside the node, and only its tags are sent.
    Nobody else may change the holding meanwhile.
    """
    if in_place is not None and holding.cipher_secret is not None:
        raise InputError(
            f"holding {holding.name!r} is encrypted, and a file in place is not: name another one"
        )
    length = original.content.length
    intent = _intent(holding, name, original.content)
    if intent is None:
        progress(2 * length)
        return Put(holding.file(name), 0)
    tags = holding.tags_path(intent.file)
    try:
        if not tags.exists():
            _tag(holding, intent.file, original, tags, processes, progress)
        sent = _send(holding, intent, original, tags, in_place, lambda n: progress(length + n))
    except ChangedError:
        abandon(holding, holding.catalogue.intent(holding.name, name) or intent)
        raise
    holding.catalogue.conclude(holding.name, intent)
    holding.sweep()
    return Put(intent.file, sent)


def abandon(holding: Holding, intent: Intent) -> None:
    """Give up a file that is on its way. If anything of it has left, its version is spent."""
    if intent.upload is not None:
        holding.node.abort(holding.key_id, intent.upload.hex())
    holding.catalogue.abandon(holding.name, intent)
    holding.sweep()


def _intent(holding: Holding, name: str, content: Content) -> Intent | None:
    """Return what is to be done, written down; None if the node has just this file."""
    catalogue = holding.catalogue
    held, pending = catalogue.file(holding.name, name), catalogue.intent(holding.name, name)
    wanted = (content.length, content.sha256)
    if pending and not pending.removes and (pending.file.length, pending.file.sha256) == wanted:
        return pending
    if pending:
        abandon(holding, pending)
    if held and (held.length, held.sha256) == wanted:
        return None
    known = [file for file in (held, pending and pending.file) if file]
    file_id = known[0].file_id if known else secrets.token_bytes(FILE_ID_BYTES)
    used = (holding.journal.latest_version(file_id), *(file.version for file in known))
    version = 1 + max(used)
    intent = Intent(FileRecord(name, file_id, version, *wanted))
    catalogue.intend(holding.name, intent)
    return intent


def _tag(
    holding: Holding,
    file: FileRecord,
    original: Original,
    tags: Path,
    processes: int | None,
    progress: Progress,
) -> None:
    """Write the tags, under their name only once it is sure that they are of this content."""
    doubtful = tags.with_suffix(".doubtful")
    try:
        tag_file(
            holding.stored_form(file, original.source),
            holding.key,
            file_id=file.file_id,
            version=file.version,
            out=doubtful,
            journal=holding.journal,
            processes=processes,
            progress=progress,
        )
    except RefusedError as error:  # before a crash, the file changed while it was being tagged
        raise ChangedError(original.source.address) from error
    original.check()
    doubtful.replace(tags)


def _send(
    holding: Holding,
    intent: Intent,
    original: Original,
    tags: Path,
    in_place: str | None,
    progress: Progress,
) -> int:
    """Upload what the node is missing and have it committed; return how many bytes went out."""
    file, node, key_id = intent.file, holding.node, holding.key_id
    source, tag_source = holding.stored_form(file, original.source), Location(str(tags))
    segment_bytes = node.facts().segment_bytes
    data = _measured(original, source, segment_bytes)
    tagged = measure(tag_source, segment_bytes)
    original.check()
    request = UploadRequest(
        file_id=file.file_id.hex(),
        version=file.version,
        length=data.length,
        data_sha256=data.sha256.hex(),
        tags_bytes=tagged.length,
        tags_sha256=tagged.sha256.hex(),
        in_place=in_place,
    )
    upload = request.id(holding.owner, key_id)
    holding.catalogue.intend(holding.name, replace(intent, upload=upload))
    sent = 0

    def reach(done: int) -> None:
        nonlocal sent
        sent = done
        progress(min(done, file.length))

    with source.open() as data_reader, tag_source.open() as tag_reader:
        readers = Measured(data_reader, data), Measured(tag_reader, tagged)
        after = intent.after(holding.inventory).hash
        node.upload(key_id, request, *readers, after, progress=reach)
    return sent


def _measured(original: Original, source: Source, segment_bytes: int) -> Content:
    if source is original.source and original.content.segment_bytes == segment_bytes:
        return original.content
    return measure(source, segment_bytes)
