"""What an owner asks of a node, whether it is at a URL or in the owner's own process."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self

from holdfast.errors import NodeError
from holdfast.ledger.interface import Answer
from holdfast.node.layout import Part
from holdfast.node.proof_messages import AnswerTo, ProofQuestion
from holdfast.node.wire import (
    HoldingFacts,
    NodeFacts,
    NodeRefusedError,
    RepairTarget,
    UploadRequest,
)
from holdfast.pdp import Challenge, Inventory, PublicKey
from holdfast.pdp.readers import Reader
from holdfast.pdp.spans import Span

Progress = Callable[[int], None]


class NodeAccess(AbstractContextManager["NodeAccess"], Protocol):
    """One owner's access to one node. `NodeClient` says what its methods do."""

    url: str
    node: bytes

    def __enter__(self) -> Self: ...
    def facts(self, *, seconds: float | None = None) -> NodeFacts: ...
    def holdings(self) -> list[HoldingFacts]: ...
    def create(self, public: PublicKey, holding: int | None = None) -> HoldingFacts: ...
    def inventory(self, key_id: bytes) -> Inventory: ...
    def remove(self, key_id: bytes) -> None: ...
    def segment_bytes(self, length: int) -> int: ...
    def abort(self, key_id: bytes, upload: str) -> None: ...
    def upload(
        self,
        key_id: bytes,
        request: UploadRequest,
        data: Reader,
        tags: Reader,
        inventory_hash: bytes,
        *,
        segment_bytes: int | None = None,
        digests: Mapping[Part, Sequence[bytes]] | None = None,
        on_progress: Progress = lambda _bytes: None,
    ) -> bytes: ...
    def prove(
        self,
        key_id: bytes,
        challenge: Challenge,
        to: AnswerTo | None = None,
        *,
        seconds: float | None = None,
    ) -> Answer: ...
    def prove_many(
        self, questions: Sequence[ProofQuestion], *, seconds: float
    ) -> list[Answer | NodeRefusedError | NodeError]: ...
    def read(self, key_id: bytes, file_id: bytes, part: Part, start: int, stop: int) -> bytes: ...
    def blocks(self, key_id: bytes, file_id: bytes, spans: Iterable[Span]) -> bytes: ...
    def tags(self, key_id: bytes, file_id: bytes, spans: Iterable[Span]) -> bytes: ...
    def replace_blocks(
        self, key_id: bytes, target: RepairTarget, spans: Iterable[Span], content: bytes
    ) -> None: ...
    def replace_tags(
        self, key_id: bytes, target: RepairTarget, spans: Iterable[Span], content: bytes
    ) -> None: ...
    def delete_file(self, key_id: bytes, file_id: bytes, before: bytes, after: bytes) -> None: ...
