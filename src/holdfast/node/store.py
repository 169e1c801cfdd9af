"""All that a node stores, by owner. An owner sees and changes only its own holdings."""

from collections.abc import Callable, Iterable
from math import floor
from threading import RLock

from pydantic import ValidationError

from holdfast.errors import InputError, MalformedError
from holdfast.node import uploads
from holdfast.node.holding import Holding, Upload
from holdfast.node.layout import Layout
from holdfast.node.objects import Objects
from holdfast.node.record import HoldingRecord
from holdfast.node.segments import SEGMENT_BYTES
from holdfast.node.wire import (
    Code,
    HoldingFacts,
    Limits,
    NodeRefusedError,
    UploadRequest,
    UploadState,
)
from holdfast.pdp import PublicKey
from holdfast.pdp.inventory import HASH_BYTES

Clock = Callable[[], float]


class Account:
    """One owner's holdings."""

    def __init__(self, owner: bytes, store: "Store") -> None:
        self.owner, self._store = owner, store
        self.lock = RLock()
        self._dropped = 0  # the second after the last one in which the owner dropped anything
        self.holdings: dict[bytes, Holding] = {}
        for entry in store.objects.list(owner.hex()):
            if (key_id := _digest(entry.name)) is not None:
                self._load(store.layout(owner, key_id))

    @property
    def reserved_bytes(self) -> int:
        with self.lock:
            return sum(holding.reserved_bytes for holding in self.holdings.values())

    def facts(self) -> list[HoldingFacts]:
        with self.lock:
            return [holding.facts for holding in self.holdings.values()]

    def holding(self, key_id: bytes) -> Holding:
        holding = self.holdings.get(key_id)
        if holding is None:
            raise NodeRefusedError(Code.UNKNOWN_HOLDING, f"you have no holding {key_id.hex()} here")
        return holding

    def create(self, public: PublicKey) -> Holding:
        with self.lock:
            if (known := self.holdings.get(public.id)) is not None:
                return known
            limit = self._store.limits.holdings
            if len(self.holdings) >= limit:
                raise NodeRefusedError(Code.QUOTA, f"an owner has at most {limit} holdings here")
            layout = self._store.layout(self.owner, public.id)
            record = HoldingRecord(self.owner, public)
            document = record.encode()
            layout.objects.write(layout.document, document)
            return self._enter(layout, record, len(document))

    def remove(self, key_id: bytes) -> None:
        with self.lock:
            holding = self.holding(key_id)
            if holding.record.files:
                raise NodeRefusedError(
                    Code.CONFLICT, "the holding has files: delete these, then the holding"
                )
            for upload in list(holding.uploads):
                uploads.abort(holding, upload)
            del self.holdings[key_id]
            holding.removed = True
            holding.layout.objects.remove(holding.layout.prefix)

    def begin(self, key_id: bytes, request: UploadRequest, created: int) -> UploadState:
        """Announce an upload by a request of that second, if it fits the owner's limits.

        A request signed before the owner dropped something must not bring that back.
        """
        with self.lock:
            self._check_order(created)
            holding, limits = self.holding(key_id), self._store.limits
            self._sweep()
            known = holding.record.uploads | holding.uploads.keys()
            if request.id(self.owner, key_id) not in known:
                self._check_room(holding, request, limits)
            upload = uploads.begin(holding, request, self._store.clock())
        missing = uploads.missing(holding.layout, upload)
        return UploadState(upload=upload.id.hex(), missing=missing)

    def abort(self, key_id: bytes, upload: bytes) -> None:
        with self.lock:
            uploads.abort(self.holding(key_id), upload)
            self._note_drop()

    def delete_file(self, key_id: bytes, file_id: bytes, before: bytes, after: bytes) -> None:
        with self.lock:
            self.holding(key_id).delete_file(file_id, before, after)
            self._note_drop()

    def _note_drop(self) -> None:
        self._dropped = floor(self._store.clock()) + 1

    def _check_order(self, created: int) -> None:
        """Raise if the owner has dropped anything in the second of the request, or later."""
        if created >= self._dropped:
            return
        if self._store.clock() < self._dropped:
            raise NodeRefusedError(
                Code.BUSY, "you dropped a file or an upload just now: try again in a second"
            )
        raise NodeRefusedError(
            Code.CLOCK,
            "the upload was announced before you last dropped a file or an upload: sign it again "
            "by the node's clock",
        )

    def _check_room(self, holding: Holding, request: UploadRequest, limits: Limits) -> None:
        if sum(len(other.uploads) for other in self.holdings.values()) >= limits.uploads:
            raise NodeRefusedError(
                Code.BUSY, f"an owner has at most {limits.uploads} unfinished uploads here"
            )
        if len(holding.record.files) + len(holding.uploads) >= limits.files:
            raise NodeRefusedError(Code.QUOTA, f"a holding has at most {limits.files} files here")
        quota = limits.quota_bytes
        if quota is not None and self.reserved_bytes + request.stored_bytes > quota:
            raise NodeRefusedError(
                Code.QUOTA,
                f"the file needs {request.stored_bytes} bytes, and of your {quota} only "
                f"{max(0, quota - self.reserved_bytes)} are free",
            )

    def _sweep(self) -> None:
        """Remove uploads that nobody has continued for too long."""
        oldest = self._store.clock() - self._store.limits.upload_seconds
        for holding in self.holdings.values():
            for upload in list(holding.uploads.values()):
                if upload.touched < oldest and not upload.closing and not upload.writers:
                    uploads.abort(holding, upload.id)

    def _load(self, layout: Layout) -> None:
        content = layout.objects.read(layout.document)
        if content is None:  # its making or removal was interrupted, or its document is lost
            return
        record = HoldingRecord.decode(content, f"{layout.objects.address}/{layout.document}")
        if (record.owner, record.public.id) != (layout.owner, layout.key_id):
            raise InputError(f"{layout.objects.address}/{layout.document} is another holding's")
        holding = self._enter(layout, record, len(content))
        for entry in layout.objects.list(layout.prefix):
            upload = _digest(entry.name)
            if upload is not None and upload not in record.uploads:
                self._resume(holding, upload)
        self._sweep()

    def _enter(self, layout: Layout, record: HoldingRecord, document_bytes: int) -> Holding:
        holding = Holding(layout, record, self._store.data, self.lock, document_bytes)
        self.holdings[layout.key_id] = holding
        return holding

    def _resume(self, holding: Holding, upload: bytes) -> None:
        """Find an unfinished upload again, or remove what is left of an ended one."""
        layout = holding.layout
        listed = {
            entry.name: entry.modified for entry in layout.objects.list(layout.upload(upload))
        }
        content = layout.objects.read(layout.request(upload)) if "upload.json" in listed else None
        try:
            request = UploadRequest.model_validate_json(content or b"")
        except ValidationError:
            layout.objects.remove(layout.upload(upload))
            return
        holding.uploads[upload] = Upload(upload, request, max(listed.values()))


class Store:
    """The accounts of the owners whom the node serves."""

    def __init__(
        self,
        objects: Objects,
        owners: Iterable[bytes],
        limits: Limits,
        clock: Clock,
        *,
        data: Objects | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.objects, self.limits, self.clock, self.data = objects, limits, clock, data
        self.segment_bytes = segment_bytes
        objects.claim()
        try:
            self._accounts = {owner: Account(owner, self) for owner in owners}
        except MalformedError:
            objects.release()
            raise

    def close(self) -> None:
        self.objects.release()

    def account(self, owner: bytes) -> Account:
        return self._accounts[owner]

    @property
    def accounts(self) -> tuple[Account, ...]:
        return tuple(self._accounts.values())

    def layout(self, owner: bytes, key_id: bytes) -> Layout:
        return Layout(self.objects, owner, key_id, self.segment_bytes)


def _digest(name: str) -> bytes | None:
    """Return the hash that a prefix is named by, or nothing if it is none of ours."""
    try:
        digest = bytes.fromhex(name)
    except ValueError:
        return None
    return digest if len(digest) == HASH_BYTES else None
