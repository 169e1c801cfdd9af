"""The leaves of the evidence: audits from observation to verdict, and what changes how they run.

A leaf has exactly one text, byte for byte. Times are milliseconds since 1970.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from holdfast.errors import InputError, MalformedError
from holdfast.evidence.codecs import hexadecimal, record, wide
from holdfast.evidence.decision import (
    Choice,
    Decision,
    Freshness,
    Override,
    Policy,
    Telemetry,
)
from holdfast.evidence.outcome import Outcome, Step
from holdfast.evidence.storage_check import (
    CheckedHolding,
    CheckResponse,
    DamagedUnit,
    Defect,
    StorageCheck,
)
from holdfast.ledger import interface
from holdfast.ledger.check import target_address
from holdfast.ledger.interface import Domain
from holdfast.pdp import Challenge, Target, encoding

__all__ = [
    "KINDS",
    "LOG_SETTING",
    "MAX_LEAF_BYTES",
    "Address",
    "Audit",
    "Change",
    "Check",
    "CheckResponse",
    "CheckedHolding",
    "Choice",
    "ConfigurationChange",
    "DamagedUnit",
    "Decision",
    "Defect",
    "Freshness",
    "Holding",
    "HoldingNumber",
    "Instruction",
    "Leaf",
    "Opening",
    "Order",
    "Outcome",
    "Override",
    "Point",
    "Policy",
    "PolicyChange",
    "Registration",
    "Response",
    "Setting",
    "Signature",
    "Span",
    "Step",
    "StorageCheck",
    "Telemetry",
    "Transaction",
    "decode",
    "encode",
]

MAX_LEAF_BYTES = 2**20
LOG_SETTING = "evidence log"  # the setting by which a restored log names itself

Address = Annotated[bytes, hexadecimal(20)]
Signature = Annotated[bytes, hexadecimal(65)]
Point = Annotated[bytes, hexadecimal(33)]
HoldingNumber = Annotated[int, wide(24)]


@dataclass(frozen=True)
class Holding:
    """A holding on its ledger, the id of its public key, and the node that stores it."""

    chain: int
    contract: Address
    id: HoldingNumber
    key: bytes
    node: Address

    @property
    def domain(self) -> Domain:
        return Domain(self.chain, self.contract)


@dataclass(frozen=True)
class Opening:
    """How the challenge stands on the ledger: its name there, its deadline, its batch's seed."""

    name: bytes
    deadline: int
    batch_seed: bytes | None


@dataclass(frozen=True)
class Transaction:
    """What the ledger says: where it is written and what it cost."""

    hash: bytes
    block: int
    gas: int


@dataclass(frozen=True)
class Audit:
    """One audit of a holding, numbered from 1, recorded `at` the time of its verdict.

    `proof` is the digest of the proof, which travels beside the leaf: it is an equation over the
    data, and may be deleted.
    """

    at: int
    holding: Holding
    number: int
    decision: Decision
    due_at: int
    challenge: Challenge
    target: Point
    opening: Opening
    sent_at: int | None
    answered_at: int | None
    outcome: Outcome
    reason: str
    proof: bytes | None
    signature: Signature | None
    verdict: Transaction | None

    @cached_property
    def public_target(self) -> Target:
        return Target(self.holding.key, self.challenge.id, self.target)

    @property
    def name_on_ledger(self) -> bytes:
        """The name that this challenge must have on the ledger; raises if there is none."""
        target, seconds = target_address(self.public_target), self.opening.deadline // 1000
        opening = interface.Opening(target, seconds, self.opening.batch_seed)
        return opening.name(self.holding.id, self.challenge)


@dataclass(frozen=True)
class Span:
    """The blocks of a holding from `start` up to `stop`."""

    start: int
    stop: int


@dataclass(frozen=True)
class Response:
    """One step in response to a failed audit, with the blocks it concerns, in up to 4,096 spans."""

    at: int
    holding: Holding
    audit: int
    step: Step
    blocks: tuple[Span, ...]
    detail: str


class Change(StrEnum):
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled-back"
    NAMED = "named"  # as the challenger, which runs in shadow
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True)
class Check:
    """One thing that a promotion was judged by; `detail` has the figures and their limits."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class PolicyChange:
    """Another policy decides from now on, or runs in shadow; `previous` did so before.

    `report` is the SHA-256 of all figures that a promotion was judged by.
    """

    at: int
    change: Change
    policy: Policy
    previous: Policy | None
    by: str
    reason: str
    forced: bool = False
    checks: tuple[Check, ...] = ()
    report: bytes | None = None

    def __post_init__(self) -> None:
        judged = self.forced or self.checks or self.report is not None
        if judged and self.change is not Change.PROMOTED:
            raise InputError("only a promotion is judged, or forced")
        if self.forced and not self.reason:
            raise InputError("a promotion that is forced has a reason")
        if not self.forced and not all(check.passed for check in self.checks):
            raise InputError("a promotion whose checks failed is a forced one")


@dataclass(frozen=True)
class Setting:
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class ConfigurationChange:
    """Settings that were changed, and `by` whom. At the first start every setting is new.

    `hash` is the SHA-256 of the whole configuration after it, in which secrets are not legible.
    """

    at: int
    hash: bytes
    settings: tuple[Setting, ...]
    by: str


@dataclass(frozen=True)
class Registration:
    """The control plane took on a holding that is registered on the ledger.

    `sectors` are those of its public key. `transaction` registered it, if the home knows which.
    """

    at: int
    holding: Holding
    sectors: int
    transaction: Transaction | None


class Order(StrEnum):
    """What an operator can order."""

    AUDIT = "audit-now"
    RELEASE = "release"
    ACKNOWLEDGE = "acknowledge"
    CREATE_TOKEN = "create-token"  # noqa: S105 - an order, no token
    REVOKE_TOKEN = "revoke-token"  # noqa: S105
    SET_URL = "set-url"
    RENAME = "rename-holding"
    REMOVE = "remove-holding"
    ADD = "add-holding"  # storage that is checked; other holdings have a registration
    ACCEPT = "accept-changes"


_ABOUT_HOLDINGS = {
    *(Order.AUDIT, Order.RELEASE, Order.SET_URL),
    *(Order.RENAME, Order.REMOVE, Order.ADD, Order.ACCEPT),
}


@dataclass(frozen=True)
class Instruction:
    """An operator's order: about a holding, an alert or a token, by whom and why."""

    at: int
    order: Order
    subject: str
    by: str
    reason: str

    @property
    def holdings(self) -> frozenset[str]:
        """The names of the holding that it is about; a renamed one has two."""
        words = self.subject.replace(",", " ").split()
        if self.order is Order.RENAME:
            return frozenset((words[0], words[-1]))
        return frozenset(words[:1] if self.order in _ABOUT_HOLDINGS else ())


Leaf = (
    Audit
    | StorageCheck
    | Response
    | CheckResponse
    | PolicyChange
    | ConfigurationChange
    | Registration
    | Instruction
)
KINDS: dict[str, type[Leaf]] = {
    "audit": Audit,
    "check": StorageCheck,
    "response": Response,
    "check-response": CheckResponse,
    "policy-change": PolicyChange,
    "configuration-change": ConfigurationChange,
    "registration": Registration,
    "instruction": Instruction,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
_FORMS = {name: record(kind, encoding.line_head(name)) for name, kind in KINDS.items()}


def encode(leaf: Leaf) -> bytes:
    """Return the text of a leaf, which is what the tree hashes."""
    content = str(_FORMS[_NAMES[type(leaf)]].write(leaf)).encode("ascii")
    if len(content) > MAX_LEAF_BYTES:
        raise MalformedError(f"the leaf would be larger than {MAX_LEAF_BYTES} bytes")
    return content


def decode(content: bytes, name: str = "leaf") -> Leaf:
    if len(content) > MAX_LEAF_BYTES:
        raise MalformedError(f"{name} is larger than {MAX_LEAF_BYTES} bytes")
    kind, fields = encoding.load_line(content, name)
    if kind not in _FORMS:
        raise MalformedError(f"{name} is of a kind this Holdfast does not know")
    try:
        leaf: Leaf = _FORMS[kind].read(fields)
    except MalformedError as error:
        raise MalformedError(f"{name}: {error}") from error
    return leaf
