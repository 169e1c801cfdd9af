"""The tags of a direct holding, laid out as a node stores them, so that a node can take them over.

OWNER/KEY/holding.json       the objects that are audited: the one document whose change counts
OWNER/KEY/stamps.json        what the listing said of each when it was tagged
OWNER/KEY/NONCE/tags.N       the tags of one object, segment by segment
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from holdfast import atomic
from holdfast.errors import InputError, MalformedError, StorageError, UnreachableError
from holdfast.node.daemon_pool import DaemonPool
from holdfast.node.layout import Layout, Part
from holdfast.node.objects import Objects, open_objects
from holdfast.node.record import FileRecord, HoldingRecord
from holdfast.node.segments import count_segments, segment_range
from holdfast.owner.direct.address import DirectAddress
from holdfast.pdp import PublicKey

TAGS = "node"  # in the holding's folder of the home
SYNCS_AT_ONCE = 16
_DRAFTS = ".drafts"
_STAMPS = TypeAdapter(dict[str, str], config=ConfigDict(strict=True))
_NONCE = re.compile(r"[0-9a-f]{64}")


class TagStore:
    """Tags and the record of what they belong to. One process at a time may change them."""

    def __init__(self, objects: Objects, owner: bytes, key_id: bytes) -> None:
        self.layout = Layout(objects, owner, key_id)

    @property
    def objects(self) -> Objects:
        return self.layout.objects

    @property
    def _stamps(self) -> str:
        return f"{self.layout.prefix}/stamps.json"

    @property
    def _folder(self) -> Path | None:
        """The folder that the tags lie in, if they lie on this machine."""
        return None if "://" in self.objects.address else Path(self.objects.address)

    def record(self) -> HoldingRecord | None:
        """Return what is audited, or nothing if the holding is not created yet."""
        content = self.objects.read(self.layout.document)
        if content is None:
            return None
        name = f"{self.objects.address}/{self.layout.document}"
        record = HoldingRecord.decode(content, name)
        if (record.owner, record.public.id) != (self.layout.owner, self.layout.key_id):
            raise InputError(f"{name} is another holding's")
        return record

    def stamps(self) -> dict[str, str]:
        """Return what the listing said of each object when it was tagged, by name."""
        content = self.objects.read(self._stamps)
        try:
            return _STAMPS.validate_json(content or b"{}")
        except ValidationError as error:
            raise MalformedError(f"{self.objects.address}/{self._stamps} is damaged") from error

    def create(self, public: PublicKey) -> HoldingRecord:
        record = self.record()
        if record is None:
            record = HoldingRecord(self.layout.owner, public)
            self._write(self.layout.document, record.encode())
        return record

    def accept(self, record: HoldingRecord, stamps: Mapping[str, str]) -> None:
        """Make this what is audited. The tags must have been written and synced before."""
        self.write_stamps(stamps)
        self._write(self.layout.document, record.encode())

    def write_stamps(self, stamps: Mapping[str, str]) -> None:
        content = json.dumps(stamps, sort_keys=True, separators=(",", ":"))
        self._write(self._stamps, content.encode())

    def write_tags(self, nonce: bytes, number: int, content: bytes) -> None:
        """Write a segment of an object's tags. It counts only when `accept` names it."""
        name = self.layout.segment(nonce, Part.TAGS, number)
        if self._folder is None:
            self.objects.write(name, content)
            return
        path = self._folder / name
        try:
            path.parent.mkdir(mode=atomic.PRIVATE_FOLDER, parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise StorageError(f"can't write {path}: {error.strerror}") from error

    def sync(self, nonces: Iterable[bytes]) -> None:
        """Make sure that these tags outlast a loss of power; many wait for the disk at once."""
        if self._folder is None:
            return
        folders = [self._folder / self.layout.upload(nonce) for nonce in nonces]
        try:
            DaemonPool(SYNCS_AT_ONCE).map(_sync_folder, folders, stall_seconds=inf)
            if folders:
                atomic.sync(folders[0].parent)
        except OSError as error:
            raise StorageError(f"can't write {self._folder}: {error.strerror}") from error

    def has_tags(self, file: FileRecord, public: PublicKey) -> bool:
        """Return whether the tags of an object are there in their full length."""
        length, size = file.header(public).file_bytes, self.layout.segment_bytes
        return all(
            self.objects.size(self.layout.segment(file.upload, Part.TAGS, number))
            == segment_range(number, length, size)[1]
            for number in range(count_segments(length, size))
        )

    def discard(self, nonces: Iterable[bytes]) -> None:
        """Remove tags that are no longer audited, or never were."""
        for nonce in nonces:
            self.objects.remove(self.layout.upload(nonce))

    def unaccepted(self, record: HoldingRecord) -> list[bytes]:
        """Return the nonces of tags that no record names."""
        names = (entry.name for entry in self.objects.list(self.layout.prefix) if entry.is_prefix)
        known = {upload.hex() for upload in record.uploads}
        return [
            bytes.fromhex(name) for name in names if name not in known and _NONCE.fullmatch(name)
        ]

    def remove(self) -> None:
        self.objects.remove(self.layout.prefix)

    def _write(self, name: str, content: bytes) -> None:
        if self._folder is not None:  # where a file that is being written lies for a moment
            atomic.make_directory(self._folder / _DRAFTS, mode=atomic.PRIVATE_FOLDER)
            atomic.make_directory((self._folder / name).parent, mode=atomic.PRIVATE_FOLDER)
        self.objects.write(name, content)


def open_store(address: DirectAddress, owner: bytes, key_id: bytes, folder: Path) -> TagStore:
    """Open the tags of a holding, beside its data or in the holding's folder of the home."""
    place = address.tags if address.beside else str(folder / TAGS)
    try:
        return TagStore(open_objects(place), owner, key_id)
    except InputError as error:
        raise UnreachableError(f"the tags can't be read: {error}") from error


def _sync_folder(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        atomic.sync(path)


def with_files(
    record: HoldingRecord, files: Iterable[FileRecord], gone: Iterable[bytes] = ()
) -> HoldingRecord:
    """Return the record with new files and new versions of known ones, and without some."""
    new = {file.file_id: file for file in files}
    absent = set(gone)
    kept = [new.pop(old.file_id, old) for old in record.files if old.file_id not in absent]
    return replace(record, files=(*kept, *new.values()))
