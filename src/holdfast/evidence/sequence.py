"""Checks that a holding's leaves follow one another: numbers without gaps, times forward."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.evidence.leaf import Audit, Holding, Leaf, Registration, Response


@dataclass
class LastLeaf:
    """The last time and audit number of a holding."""

    holding: Holding
    at: int = 0
    audits: int = 0


@dataclass
class SequenceCheck:
    """Follows all holdings; `find_faults` says what is out of sequence in the next leaf."""

    last: dict[tuple[int, bytes, int], LastLeaf] = field(default_factory=dict)

    def find_faults(self, leaf: Leaf) -> Iterator[str]:
        if not isinstance(leaf, Audit | Response | Registration):
            return
        holding = leaf.holding
        name = (holding.chain, holding.contract, holding.id)
        known = name in self.last
        last = self.last.setdefault(name, LastLeaf(holding))
        if last.holding != holding:
            yield "the holding had another key or node before"
        if isinstance(leaf, Registration) and known:
            yield "the holding was there before it was registered"
        if leaf.at < last.at:
            yield "it was recorded before what precedes it"
        last.at = max(last.at, leaf.at)
        if isinstance(leaf, Audit):
            if leaf.number != last.audits + 1:
                yield f"it is audit {leaf.number} of its holding, after audit {last.audits}"
            last.audits = leaf.number
            yield from _times(leaf)
        elif isinstance(leaf, Response) and not 1 <= leaf.audit <= last.audits:
            yield f"it responds to audit {leaf.audit}, which is not before it"


def _times(audit: Audit) -> Iterator[str]:
    times = (audit.decision.at, audit.sent_at, audit.answered_at, audit.at)
    known = [time for time in times if time is not None]
    if known != sorted(known):
        yield "decision, challenge, answer and verdict are not in this order"
    if audit.due_at < audit.decision.at:
        yield "it was due before it was decided"
    if audit.answered_at is not None and audit.sent_at is None:
        yield "it was answered but never sent"
    seen = audit.decision.telemetry.at
    if seen is not None and seen > audit.decision.at:
        yield "its observation is younger than its decision"
