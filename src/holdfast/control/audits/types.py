"""Types of audits: prepared, deferred and ended, and the interface of an auditor.

What `prepare` returns is saved before anything happens. `carry_out` must reach the same end however
often it is started with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.control.scheduling.schedule import Claim
from holdfast.evidence.leaf import Holding, Opening, Outcome, Transaction
from holdfast.ledger.interface import Batch
from holdfast.pdp import Challenge, Proof


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit. Times are milliseconds since 1970."""

    outcome: Outcome
    reason: str  # in words, if the outcome needs any
    due: int
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

    @property
    def latency(self) -> float:
        """Seconds that the node took to answer; 0 if it did not."""
        if self.sent is None or self.answered is None:
            return 0.0
        return (self.answered - self.sent) / 1000

    @property
    def gas(self) -> int:
        return self.spent + (self.verdict.gas if self.verdict else 0)


@dataclass(frozen=True)
class Deferred:
    """The audit is under way, and there is nothing to do for it before `at`."""

    at: int
    flight: bytes
    trouble: str | None = None  # with the ledger, if it waits for that


@dataclass(frozen=True)
class PreparedAudit:
    """An audit as it is saved; `capped` says that the sample was above the cap."""

    flight: bytes
    capped: bool


@dataclass(frozen=True)
class PreparedBatch:
    """Audits that begin together, in the order of their claims, and the batches they are in."""

    audits: Sequence[PreparedAudit]
    batches: Sequence[Batch] = ()


class Auditor(Protocol):
    def gas_price(self) -> int:
        """Return the price of a unit of gas in wei; 0 if it costs nothing."""

    def prepare(self, claims: Sequence[Claim]) -> PreparedBatch: ...

    def carry_out(self, audits: Sequence[tuple[Claim, bytes]]) -> list[AuditResult | Deferred]: ...
