"""The seam between the schedule and the data plane: an audit is prepared, then carried out.

What `prepare` returns is written down before anything happens; `carry_out` must come to the same
end however often it is begun with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.control.schedule import Claim
from holdfast.control.telemetry import Outcome
from holdfast.evidence.leaf import Holding, Opening, Transaction
from holdfast.pdp import Challenge, Proof


@dataclass(frozen=True)
class Result:
    """What came of an audit."""

    outcome: Outcome
    reason: str  # in words, where the outcome needs some
    holding: Holding
    challenge: Challenge
    target: bytes
    opening: Opening
    sent: int | None  # milliseconds since 1970, as all times
    answered: int | None
    latency: float  # seconds
    proof: Proof | None
    signature: bytes | None
    verdict: Transaction | None
    gas: float


@dataclass(frozen=True)
class Later:
    """The audit is under way, and there is nothing to do for it before `at`."""

    at: int


@dataclass(frozen=True)
class Prepared:
    """An audit as it is written down; `capped` tells that the sample was above the cap."""

    flight: bytes
    capped: bool


class Auditor(Protocol):
    def gas_price(self) -> int:
        """Return what a unit of gas costs now, in wei; 0 where it costs nothing."""

    def prepare(self, claim: Claim, now: int) -> Prepared: ...

    def carry_out(
        self, audits: Sequence[tuple[Claim, bytes]], now: int
    ) -> list[Result | Later]: ...
