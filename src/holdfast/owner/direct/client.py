"""A node inside the owner's process, which proves what lies in a bucket or folder.

It has the interface of a node's client. Whatever keeps it from reading the data or the tags is an
outage. A loss is a proof that fails, and the objects are named beside it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import RLock
from typing import NoReturn, Self, TypeVar

import holdfast
from holdfast.errors import InputError, NodeError, StorageError, UnreachableError
from holdfast.ledger.interface import Answer
from holdfast.node.holding import Holding, check_inventory
from holdfast.node.identity import NodeKey
from holdfast.node.layout import Part
from holdfast.node.objects import LostError
from holdfast.node.proof_messages import AnswerTo, ProofQuestion, sign_answer
from holdfast.node.record import HoldingRecord
from holdfast.node.segments import SEGMENT_BYTES
from holdfast.node.time_limit import within
from holdfast.node.wire import (
    Code,
    HoldingFacts,
    Limits,
    NodeFacts,
    NodeRefusedError,
    RepairTarget,
    UploadRequest,
)
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.audit import DirectAudit
from holdfast.owner.direct.differences import compare, name_of
from holdfast.owner.direct.journal import Journal
from holdfast.owner.direct.name_list import NameList
from holdfast.owner.direct.repair import RepairDraft, restore_object
from holdfast.owner.direct.storage import DirectStorage
from holdfast.owner.direct.tag_store import TagStore, open_store
from holdfast.owner.direct.tagging_team import TaggingTask
from holdfast.pdp import Challenge, Inventory, PublicKey, SecretKey
from holdfast.pdp.inventory import MAX_FILES
from holdfast.pdp.readers import Reader
from holdfast.pdp.spans import Span

T = TypeVar("T")

ANSWERING_SHARE = 0.95  # of the time that a caller waits
LIMITS = Limits(files=MAX_FILES)


class DirectClient:
    """The access to one direct holding."""

    def __init__(
        self, address: DirectAddress, owner: bytes, node_key: NodeKey, key: SecretKey, folder: Path
    ) -> None:
        """Make a client; `folder` is the holding's in the home. Nothing is read yet."""
        self.url, self.node = address.url, node_key.address
        self.storage, self.journal = DirectStorage(address), Journal(folder)
        self.suspected = NameList(folder / "suspected.json")  # objects that an audit named
        self.illegible = NameList(folder / "illegible.json")  # objects whose tags are damaged
        self._address, self._owner, self._folder = address, owner, folder
        self._node_key, self._key = node_key, key
        self._lock = RLock()
        self._open: Holding | None = None
        self._stamps: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @cached_property
    def store(self) -> TagStore:
        return open_store(self._address, self._owner, self._key.public.id, self._folder)

    @property
    def tagging_task(self) -> TaggingTask:
        """What it takes to tag objects of this holding."""
        return TaggingTask(self._address, self._owner, self._key, self._folder)

    @property
    def stamps(self) -> dict[str, str]:
        """What the listing said of each object when it was tagged, or was last found intact."""
        self.holding()
        return self._stamps

    def holding(self, *, reload: bool = False) -> Holding:
        """Return what is audited, as the tag store has it."""
        with self._lock:
            if self._open is None or reload:
                try:
                    record, stamps = self.store.record(), self.store.stamps()
                except (InputError, StorageError) as error:
                    raise UnreachableError(f"the tags can't be read: {error}") from error
                if record is None:
                    raise UnreachableError(
                        f"there are no tags at {self.store.objects.address}: restore them from a "
                        "backup, or remove the holding and add it again"
                    )
                if self._open is None or self._open.record != record:
                    self._open = Holding(self.store.layout, record, self.storage, self._lock)
                self._stamps = stamps
            return self._open

    def facts(self, *, seconds: float | None = None) -> NodeFacts:
        """Return the limits; with `seconds`, raise unless the storage answers within them."""
        if seconds is not None:
            with within(seconds):
                self.storage.check()
        return NodeFacts(
            version=holdfast.__version__,
            address=self.node.hex(),
            segment_bytes=SEGMENT_BYTES,
            in_place=True,
            limits=LIMITS,
        )

    def holdings(self) -> list[HoldingFacts]:
        if self.store.record() is None:
            return []
        return [self.holding(reload=True).facts]

    def create(self, public: PublicKey, holding: int | None = None) -> HoldingFacts:  # noqa: ARG002
        self.store.create(public)
        return self.holding(reload=True).facts

    def inventory(self, key_id: bytes) -> Inventory:  # noqa: ARG002
        return self.holding(reload=True).record.inventory

    def remove(self, key_id: bytes) -> None:  # noqa: ARG002
        """Remove the tags. The data stay."""
        self.store.remove()
        self._open = None

    def delete_file(self, key_id: bytes, file_id: bytes, before: bytes, after: bytes) -> None:  # noqa: ARG002
        """Audit an object no longer. Its data stay."""
        record = self.holding(reload=True).record
        if file_id in record.by_id and record.inventory.hash != before:
            raise NodeRefusedError(Code.INVENTORY, "the holding has other objects than expected")
        changed = record.without_file(file_id)
        check_inventory(changed, after)
        if changed != record:
            self.accept(changed, self._stamps)

    def accept(self, record: HoldingRecord, stamps: Mapping[str, str]) -> None:
        """Make this what is audited, and remove the tags that it no longer needs."""
        before = self.holding().record
        self.store.accept(record, stamps)
        self.holding(reload=True)
        self.store.discard(before.uploads - record.uploads)

    def segment_bytes(self, length: int) -> int:  # noqa: ARG002
        return SEGMENT_BYTES

    def abort(self, key_id: bytes, upload: str) -> None:
        pass

    def upload(
        self,
        key_id: bytes,  # noqa: ARG002
        request: UploadRequest,  # noqa: ARG002
        data: Reader,  # noqa: ARG002
        tags: Reader,  # noqa: ARG002
        inventory_hash: bytes,  # noqa: ARG002
        **_options: object,
    ) -> bytes:
        self._refuse()

    def replace_blocks(
        self,
        key_id: bytes,  # noqa: ARG002
        target: RepairTarget,
        spans: Iterable[Span],
        content: bytes,
    ) -> None:
        """Keep these blocks in the home, until `finish_repair` writes the object again."""
        holding = self.holding()
        holding.repair(target, partial(self._keep_blocks, holding), list(spans), content)

    def _keep_blocks(
        self, holding: Holding, file_id: bytes, spans: Sequence[Span], content: bytes
    ) -> None:
        file, size = holding.file(file_id), holding.record.public.layout.block_bytes
        draft, at = RepairDraft(self._folder, file), 0
        for start, stop in spans:
            offset, end = start * size, min(stop * size, file.length)
            draft.write(offset, content[at : at + end - offset])
            at += end - offset

    def finish_repair(self, file_id: bytes) -> None:
        """Write an object again, with the blocks that were brought, if it is whole then."""
        file = self.holding().file(file_id)
        restore_object(self.storage, file, RepairDraft(self._folder, file))
        name = name_of(file)
        written = self.storage.look_up(name)
        if written is None:
            raise StorageError(f"{name} was written, and is not there: try again")
        self.store.write_stamps({**self.stamps, name: written.stamp})
        self.holding(reload=True)
        self.suspected.remove([name])

    def replace_tags(
        self,
        key_id: bytes,  # noqa: ARG002
        target: RepairTarget,
        spans: Iterable[Span],
        content: bytes,
    ) -> None:
        holding = self.holding()
        holding.repair(target, holding.replace_tags, list(spans), content)

    def prove(
        self,
        key_id: bytes,
        challenge: Challenge,
        to: AnswerTo | None = None,
        *,
        seconds: float | None = None,
    ) -> Answer:
        """Return a proof over what is there, with zeros for what is lost."""
        question = ProofQuestion(key_id, challenge, to)
        with within(seconds):
            proof = self._outage_unless(lambda: self._matching(challenge).prove(challenge))
        return sign_answer(self._node_key, question, proof)

    def prove_many(
        self, questions: Sequence[ProofQuestion], *, seconds: float
    ) -> list[Answer | NodeRefusedError | NodeError]:
        """Audit: list the objects, prove the challenges, and name what is wrong."""
        with within(ANSWERING_SHARE * seconds):
            return [self._audit(question) for question in questions]

    def _audit(self, question: ProofQuestion) -> Answer:
        holding = self._matching(question.challenge)
        audit = DirectAudit(holding, self.storage, self._stamps, self._key)
        read_bytes, requests = self.storage.read_bytes, self.storage.requests
        proof, findings = self._outage_unless(lambda: audit.answer(question.challenge))
        if findings.names:
            self.suspected.add(findings.names)
        answer = sign_answer(self._node_key, question, proof)
        return replace(
            answer,
            reason=findings.describe(),
            objects=findings.describe_objects(),
            read_bytes=self.storage.read_bytes - read_bytes,
            requests=self.storage.requests - requests,
        )

    def _matching(self, challenge: Challenge) -> Holding:
        """Return the holding that a challenge is for, read again if another process changed it."""
        for reload in (False, True):
            holding = self.holding(reload=reload)
            if holding.record.inventory.hash == challenge.inventory_hash:
                return holding
        raise UnreachableError(
            "the catalogue and the tags disagree on what is audited: `holdfast holding refresh` "
            "finishes an enrolment that was interrupted"
        )

    def read(self, key_id: bytes, file_id: bytes, part: Part, start: int, stop: int) -> bytes:  # noqa: ARG002
        """Return a range, with zeros for what is lost."""
        holding = self.holding()
        reader = holding.reader(holding.file(file_id), part)
        try:
            (content,) = reader.read_many([(start, stop - start)])
        except LostError as error:  # of tags
            raise NodeRefusedError(Code.DAMAGED, str(error)) from error
        return content

    def blocks(self, key_id: bytes, file_id: bytes, spans: Iterable[Span]) -> bytes:  # noqa: ARG002
        return b"".join(self.holding().blocks(file_id, list(spans)))

    def tags(self, key_id: bytes, file_id: bytes, spans: Iterable[Span]) -> bytes:  # noqa: ARG002
        return self.holding().tags(file_id, list(spans))

    def suspects(self) -> frozenset[bytes] | None:
        """Return the ids of the objects that may be damaged; None if any may be.

        These are the ones that audits named, and those that the listing shows to have changed.
        """
        holding = self.holding()
        differences = compare(holding.record, self._stamps, self.storage.walk())
        files = [*(changed.file for changed in differences.changed), *differences.vanished]
        named = self.suspected.read()
        files += [file for file in holding.record.files if name_of(file) in named]
        return frozenset(file.file_id for file in files) or None

    def is_longer(self, file_id: bytes) -> bool:
        """Return whether an object has more bytes than were tagged, by the last listing."""
        file = self.holding().file(file_id)
        return self.storage.listed_size(name_of(file)) > file.length

    def _outage_unless(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; storage or tags that can't be read are no loss."""
        try:
            return work()
        except NodeRefusedError as error:
            if error.code is Code.STORAGE:
                raise UnreachableError(f"can't read {self._address.data}: {error}") from error
            self._note_illegible(str(error.__cause__))
            raise UnreachableError(
                "the tags of an object are damaged, while its data may be intact: `holdfast "
                "holding refresh` names it"
            ) from error
        except (InputError, StorageError, TimeoutError) as error:
            words = str(error) or "no answer in time"
            raise UnreachableError(f"can't read {self._address.data}: {words}") from error

    def _note_illegible(self, words: str) -> None:
        """Note the object whose tags an error is about, which names them by their nonce."""
        files = self.holding().record.files
        self.illegible.add(name_of(file) for file in files if file.upload.hex() in words)

    def _refuse(self) -> NoReturn:
        raise InputError(
            f"{self._address.data} is only read: change it by your own means, then `holdfast "
            "holding refresh` or `accept`"
        )
