"""Checks that a holding's leaves follow one another: numbers without gaps, times forward."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.evidence.leaf import (
    Audit,
    CheckedHolding,
    CheckResponse,
    Decision,
    Holding,
    Leaf,
    Registration,
    Response,
    StorageCheck,
)

OfHolding = Audit | StorageCheck | Response | CheckResponse | Registration


@dataclass(frozen=True)
class Identity:
    """By what a holding is known, and what must not change about it."""

    number: tuple[int | bytes, ...]
    fixed: tuple[str | bytes, ...]
    words: str  # for what is fixed


@dataclass
class LastLeaf:
    """The last time and audit number of a holding."""

    identity: Identity
    at: int = 0
    audits: int = 0


@dataclass
class SequenceCheck:
    """Follows all holdings; `find_faults` says what is out of sequence in the next leaf."""

    last: dict[tuple[int | bytes, ...], LastLeaf] = field(default_factory=dict)

    def find_faults(self, leaf: Leaf) -> Iterator[str]:
        if not isinstance(leaf, OfHolding):
            return
        identity = _identify(leaf.holding)
        known = identity.number in self.last
        last = self.last.setdefault(identity.number, LastLeaf(identity))
        if last.identity != identity:
            yield f"the holding had another {identity.words} before"
        if isinstance(leaf, Registration) and known:
            yield "the holding was there before it was registered"
        if leaf.at < last.at:
            yield "it was recorded before what precedes it"
        last.at = max(last.at, leaf.at)
        yield from _numbers(leaf, last)
        if isinstance(leaf, Audit):
            yield from _audit_times(leaf)
        elif isinstance(leaf, StorageCheck):
            yield from _check_times(leaf)


def _identify(holding: Holding | CheckedHolding) -> Identity:
    """Return the identity of a holding. One that is checked may have another name later."""
    if isinstance(holding, CheckedHolding):
        return Identity((holding.id,), (holding.kind, holding.address), "kind or address")
    number = (holding.chain, holding.contract, holding.id)
    return Identity(number, (holding.key, holding.node), "key or node")


def _numbers(leaf: OfHolding, last: LastLeaf) -> Iterator[str]:
    what = "check" if isinstance(leaf, StorageCheck | CheckResponse) else "audit"
    if isinstance(leaf, Audit | StorageCheck):
        if leaf.number != last.audits + 1:
            yield f"it is {what} {leaf.number} of its holding, after {what} {last.audits}"
        last.audits = leaf.number
    elif not isinstance(leaf, Registration):
        number = leaf.audit if isinstance(leaf, Response) else leaf.check
        if not 1 <= number <= last.audits:
            yield f"it responds to {what} {number}, which is not before it"


def _audit_times(audit: Audit) -> Iterator[str]:
    times = (audit.decision.at, audit.sent_at, audit.answered_at, audit.at)
    known = [time for time in times if time is not None]
    if known != sorted(known):
        yield "decision, challenge, answer and verdict are not in this order"
    if audit.answered_at is not None and audit.sent_at is None:
        yield "it was answered but never sent"
    yield from _decision_times(audit.decision, audit.due_at)


def _check_times(check: StorageCheck) -> Iterator[str]:
    times = [check.decision.at, check.began_at, check.ended_at, check.at]
    if times != sorted(times):
        yield "decision, beginning, end and verdict are not in this order"
    yield from _decision_times(check.decision, check.due_at)


def _decision_times(decision: Decision, due_at: int) -> Iterator[str]:
    if due_at < decision.at:
        yield "it was due before it was decided"
    seen = decision.telemetry.at
    if seen is not None and seen > decision.at:
        yield "its observation is younger than its decision"
