"""Types of an audit: who is audited, what a node answered, how an audit ends, who runs it.

A node gives proofs; other storage is checked by a tool. Both kinds of audits have one result.

What `prepare` returns is saved before anything happens. An audit that is started with it again,
however often, reaches the same end.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from holdfast.checkers.interface import DamagedUnit, Report
from holdfast.control.audits.pending import Pending
from holdfast.control.scheduling.claims import Claim
from holdfast.control.scheduling.coverage import Look
from holdfast.errors import StorageError
from holdfast.evidence.leaf import Holding, Opening, Outcome, Transaction
from holdfast.ledger.interface import Answer, Batch, Ledger
from holdfast.node.proof_messages import ProofQuestion
from holdfast.pdp import Challenge, Inventory, Proof, SecretKey

P_contra = TypeVar(
    "P_contra", bound=Pending, contravariant=True
)  # the kind of audit that an auditor runs


class Prover(Protocol):
    """A node that is asked for proofs."""

    def prove_many(
        self, questions: Sequence[ProofQuestion], *, seconds: float
    ) -> Sequence[Answer | Exception]:
        """Return an answer or an error per question; raise if the whole request fails."""


class Subject(Protocol):
    """What an audit needs to know of a holding."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> SecretKey: ...
    @property
    def address(self) -> bytes:
        """The address by which its node signs."""

    @property
    def number(self) -> int: ...
    @property
    def inventory(self) -> Inventory: ...
    @property
    def node(self) -> Prover: ...


class Fleet(Protocol):
    """All holdings, and the ledgers that they are registered on."""

    def holdings(self, names: Collection[str]) -> Mapping[str, Subject]:
        """Return these holdings as they are now; those that are gone are left out."""

    def ledger(self, sectors: int) -> Ledger: ...
    def gas_price(self) -> int: ...


@dataclass(frozen=True)
class NoAnswer:
    """No answer that counts, and why. It says nothing about a failing proof.

    `delivered` says whether the node received the challenge: if so, silence is the node's fault.
    `late` says that an answer reached the ledger after the deadline. `admitted` says that the node
    answered that it has lost what was stored.
    """

    reason: str
    delivered: bool = True
    late: bool = False
    admitted: bool = False


@dataclass(frozen=True)
class ProofDetail:
    """What an audit by a proof says besides its result. Times are milliseconds since 1970."""

    holding: Holding
    challenge: Challenge
    target: bytes  # a point
    opening: Opening
    sent: int | None
    answered: int | None
    proof: Proof | None
    signature: bytes | None
    verdict: Transaction | None
    spent: int = 0  # gas, on opening the challenge
    objects: tuple[str, ...] = ()  # of a direct holding that are lost or changed: not for evidence

    @property
    def id(self) -> bytes:
        """What tells this audit from all others."""
        return self.challenge.id


@dataclass(frozen=True)
class CheckDetail:
    """What a check of storage says besides its result."""

    kind: str  # of the checker
    address: str
    seed: bytes
    unit: str
    tool: str
    drawn: int  # units in the sample
    sample: bytes  # hash of the names of the groups in it
    overrides: int  # guardrails that changed the sample
    look: Look  # what is verified now
    damaged: tuple[DamagedUnit, ...] = ()
    words: str = ""  # the tool's own
    report: Report | None = None  # what a check that failed said

    @property
    def id(self) -> bytes:
        """What tells this check from all others."""
        return self.seed


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit. Times are milliseconds since 1970."""

    name: str  # of the holding
    outcome: Outcome
    reason: str  # in words, if the outcome needs any
    due: int
    began: int
    ended: int
    units: int  # that there were: blocks, packs, objects
    checked: int  # of them
    detail: ProofDetail | CheckDetail
    damaged: int = 0  # units that are known to be
    read_bytes: int = 0
    requests: int = 0
    gas: int = 0

    @property
    def proof_detail(self) -> ProofDetail:
        """The detail of an audit by a proof."""
        if not isinstance(self.detail, ProofDetail):
            raise StorageError(f"the audit of {self.name!r} was no proof")
        return self.detail

    @property
    def latency(self) -> float:
        """Seconds that the node took to answer; 0 if it did not.

        How long a check takes says nothing about its storage's response time.
        """
        detail = self.detail
        if isinstance(detail, CheckDetail) or detail.sent is None or detail.answered is None:
            return 0.0
        return (detail.answered - detail.sent) / 1000


@dataclass(frozen=True)
class Deferred:
    """The audit is under way, and there is nothing to do for it before `at`."""

    at: int
    pending: Pending
    trouble: str | None = None  # with the ledger, if it waits for that


@dataclass(frozen=True)
class PreparedAudit:
    """An audit that is about to be saved; `capped` says that the sample was above the cap."""

    pending: Pending
    capped: bool


@dataclass(frozen=True)
class PreparedBatch:
    """Audits that begin together, in the order of their claims, and the batches they are in."""

    audits: Sequence[PreparedAudit]
    batches: Sequence[Batch] = ()


class Auditor(Protocol[P_contra]):
    """Runs audits. A slow node delays only its own."""

    def gas_price(self) -> int:
        """Return the price of a unit of gas in wei; 0 if it costs nothing."""

    def prepare(self, claims: Sequence[Claim]) -> PreparedBatch: ...

    def start(self, audits: Sequence[tuple[Claim, P_contra]]) -> None:
        """Begin audits, or resume them. It waits for no node."""

    def collect(self, seconds: float) -> Sequence[tuple[Claim, AuditResult | Deferred]]:
        """Return what has ended since the last call, after waiting at most that long for it."""

    def release(self, claims: Sequence[Claim]) -> None:
        """Delete what these audits left: their results are saved."""

    def busy_nodes(self) -> Collection[bytes]:
        """Return the nodes that have enough audits for now."""

    def abandon(self) -> None:
        """Forget what runs: it is resumed from what was saved."""
