"""The messages between owner and node, their limits, and the codes of refusals."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from holdfast.errors import RefusedError
from holdfast.node.segments import MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES
from holdfast.pdp.keys import MAX_VERSION

MAX_LENGTH = 2**42  # bytes of a file: half a million segments
MAX_PATH = 1024
NODE_HEADER = "holdfast-node"  # which node a request is meant for, so that no other takes it

Positive = Annotated[int, Field(ge=1, le=2**63 - 1)]
NotNegative = Annotated[int, Field(ge=0, le=2**63 - 1)]
Hex16 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Hex20 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Hex32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Code(StrEnum):
    """Why a node refuses, in one word."""

    MALFORMED = "malformed"
    SIGNATURE = "signature"
    CLOCK = "clock"
    UNKNOWN_OWNER = "unknown-owner"
    UNKNOWN_HOLDING = "unknown-holding"
    FORBIDDEN = "forbidden"
    SAMPLE_CAP = "sample-cap"
    NOT_FOUND = "not-found"
    METHOD = "method"
    SLOW = "slow"
    INVENTORY = "inventory"
    CONFLICT = "conflict"
    CHECKSUM = "checksum"
    INCOMPLETE = "incomplete"
    DAMAGED = "damaged"
    TOO_LARGE = "too-large"
    RANGE = "range"
    BUSY = "busy"
    STORAGE = "storage"
    QUOTA = "quota"


STATUS = {
    Code.MALFORMED: 400,
    Code.SIGNATURE: 401,
    Code.CLOCK: 401,
    Code.UNKNOWN_OWNER: 403,
    Code.FORBIDDEN: 403,
    Code.SAMPLE_CAP: 403,
    Code.NOT_FOUND: 404,
    Code.UNKNOWN_HOLDING: 404,
    Code.METHOD: 405,
    Code.SLOW: 408,
    Code.INVENTORY: 409,
    Code.CONFLICT: 409,
    Code.CHECKSUM: 409,
    Code.INCOMPLETE: 409,
    Code.DAMAGED: 409,
    Code.TOO_LARGE: 413,
    Code.RANGE: 416,
    Code.BUSY: 429,
    Code.STORAGE: 503,
    Code.QUOTA: 507,
}


class NodeRefusedError(RefusedError):
    """A node refused a request, which therefore changed nothing."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return STATUS[self.code]


class Message(BaseModel):
    """A message with these fields and no others, of exactly these types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Reason(Message):
    code: str
    message: str
    # The node's clock, where the request's was the trouble, and its signature (`node.clock`).
    time: float | None = None
    signature: str | None = None


class Refusal(Message):
    error: Reason


class Health(Message):
    status: str


class Limits(Message):
    """What one node takes from its owners."""

    quota_bytes: NotNegative | None = None  # per owner; data in place don't count
    samples: Positive = 1_000_000  # of one proof: 1.5 s at 496 bytes a block
    files: Positive = 100_000  # of one holding, whose document every commit rewrites
    holdings: Positive = 1_000  # of one owner
    uploads: Positive = 64  # that one owner has begun and not ended
    segments_at_once: Positive = 8  # received at the same time
    proofs_at_once: Positive = 2  # requests for proofs, each of which proves one after another
    challenges: Positive = 64  # of one request
    proof_seconds: Positive = 60  # after which a request begins no further proof
    upload_seconds: Positive = 7 * 24 * 3600  # until an upload that nobody continues is swept
    body_seconds: Positive = 300  # until the whole body of a request must be there


class NodeFacts(Message):
    version: str
    address: Hex20
    segment_bytes: Annotated[int, Field(ge=MIN_SEGMENT_BYTES, le=MAX_SEGMENT_BYTES)]
    in_place: bool
    limits: Limits


class HoldingFacts(Message):
    key_id: Hex32
    files: int
    blocks: int
    bytes: int
    inventory_hash: Hex32


class Holdings(Message):
    holdings: list[HoldingFacts]


class UploadRequest(Message):
    file_id: Hex16
    version: Annotated[int, Field(ge=1, le=MAX_VERSION)]
    nonce: Hex32
    length: Annotated[int, Field(ge=0, le=MAX_LENGTH)]
    data_digest: Hex32  # of the segments, as `node.segments` combines them
    tags_bytes: Annotated[int, Field(ge=0, le=2 * MAX_LENGTH)]
    tags_digest: Hex32
    in_place: Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATH)] | None = None

    def id(self, owner: bytes, key_id: bytes) -> bytes:
        """Return the name of this upload, the same whenever it is asked for."""
        content = owner + key_id + self.model_dump_json().encode()
        return hashlib.sha256(b"holdfast/v1/upload\0" + content).digest()

    @property
    def stored_bytes(self) -> int:
        return self.tags_bytes + (0 if self.in_place else self.length)


class Missing(Message):
    data: list[int]
    tags: list[int]


class UploadState(Message):
    upload: Hex32
    missing: Missing


class CommitRequest(Message):
    inventory_hash: Hex32


class Committed(Message):
    inventory_hash: Hex32


@dataclass(frozen=True)
class RepairTarget:
    """What a repair applies to: a version of a file, within one inventory of its holding."""

    file_id: bytes
    version: int
    inventory_hash: bytes

    @property
    def query(self) -> dict[str, Any]:
        return {"version": self.version, "inventory_hash": self.inventory_hash.hex()}
