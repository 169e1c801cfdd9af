"""What must hold of every operation, whatever failed in it: one function per invariant.

Each raises AssertionError. docs/control.md lists them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import select
from tests.support.fault_plan import UNIT, Kind
from tests.support.faulty_fleet import Ask, SimulatedHolding
from tests.support.killed_workers import names_opened
from tests.support.seeded_operation import PACE, SeededOperation
from tests.support.simulated_operation import SIGNER

from holdfast.evidence import leaf
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.leaf import Outcome
from holdfast.evidence.verification import verify
from holdfast.ledger.interface import Failed, Passed, TimedOut
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, holdings, leaves

BLAMING = (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.ADMITTED, Outcome.OFFLINE)
SILENT_KINDS = {Kind.AWAY, Kind.SLOW, Kind.HUNG, Kind.STUCK, Kind.BUSY, Kind.ADMITS}


@dataclass(frozen=True)
class Ended:
    """An operation that is over, with all that it wrote."""

    operation: SeededOperation

    @cached_property
    def rows(self) -> Sequence[Any]:
        with transaction(self.operation.viewer) as connection:
            return connection.execute(select(holdings).order_by(holdings.c.id)).all()

    @cached_property
    def audit_rows(self) -> list[tuple[int, int, str]]:
        query = select(audits.c.holding, audits.c.number, audits.c.outcome)
        with transaction(self.operation.viewer) as connection:
            return [tuple(row) for row in connection.execute(query)]

    @cached_property
    def leaves(self) -> list[tuple[int, leaf.Audit]]:
        """The leaves of audits, each with the id of its holding."""
        query = select(leaves.c.holding, leaves.c.body).order_by(leaves.c.id)
        with transaction(self.operation.viewer) as connection:
            rows = connection.execute(query).all()
        decoded = [(row.holding, leaf.decode(bytes(row.body))) for row in rows]
        return [(id_, body) for id_, body in decoded if isinstance(body, leaf.Audit)]

    @cached_property
    def events(self) -> list[Any]:
        return [e for receipt in self.operation.chain.receipts() for e in receipt.events]

    def asks(self, audit: leaf.Audit) -> list[Ask]:
        """Return what the audit's node was asked, with the truth of those moments."""
        return self.by_key[audit.holding.key].asks.get(audit.challenge.id, [])

    @cached_property
    def by_key(self) -> dict[bytes, SimulatedHolding]:
        return {h.key.public.id: h for h in self.operation.fleet.by_name.values()}


def no_audit_is_recorded_twice(ended: Ended) -> None:
    names = Counter(audit.opening.name for _, audit in ended.leaves)
    assert all(count == 1 for count in names.values())
    numbers = Counter((id_, audit.number) for id_, audit in ended.leaves)
    assert all(count == 1 for count in numbers.values())


def numbers_have_no_gaps(ended: Ended) -> None:
    for row in ended.rows:
        expected = list(range(1, row.number + 1))
        assert [audit.number for id_, audit in ended.leaves if id_ == row.id] == expected
        assert sorted(number for id_, number, _ in ended.audit_rows if id_ == row.id) == expected


def every_due_audit_is_explained(ended: Ended) -> None:
    """Check that every challenge has one leaf, which says why it did not pass, and none is due."""
    opened = Counter(name for event in ended.events for name in names_opened(event))
    assert all(count == 1 for count in opened.values())
    recorded = {audit.opening.name for _, audit in ended.leaves}
    assert set(opened) <= recorded
    judged = [e.challenge for e in ended.events if isinstance(e, (Passed, Failed, TimedOut))]
    assert len(judged) == len(set(judged))
    for _, audit in ended.leaves:
        assert audit.reason or audit.outcome in {Outcome.PASSED, Outcome.FAILED}, audit
    outcomes = {(id_, audit.number): str(audit.outcome) for id_, audit in ended.leaves}
    assert outcomes == {(id_, number): outcome for id_, number, outcome in ended.audit_rows}
    now = ended.operation.time.wall()
    assert all(row.flight is None and row.due < now + 2 * UNIT for row in ended.rows)
    assert all(row.audited > now - 2 * UNIT for row in ended.rows)


def nobody_is_blamed_without_a_fault(ended: Ended) -> None:
    """Check that a node that is blamed had a fault of its own when that audit asked it."""
    for _, audit in ended.leaves:
        if audit.outcome not in BLAMING:
            continue
        asks = ended.asks(audit)
        kinds = {kind for ask in asks for kind in ask.kinds}
        cause = {
            Outcome.FAILED: any(ask.damage_met for ask in asks),
            Outcome.ADMITTED: Kind.ADMITS in kinds,
            Outcome.OFFLINE: bool(kinds & {Kind.AWAY, Kind.STUCK}),
            Outcome.TIMED_OUT: bool(kinds & SILENT_KINDS),
        }
        assert cause[audit.outcome], f"{audit.outcome} without a cause: {audit.reason}; {asks}"


def every_loss_is_found_or_explained(ended: Ended) -> None:
    """Check that no sample that met damage passed; if it did not fail, the leaf says why."""
    for _, audit in ended.leaves:
        asks = ended.asks(audit)
        if audit.outcome is Outcome.PASSED:
            assert any(not ask.damage_met for ask in asks), audit
        elif any(ask.damage_met and not ask.kinds for ask in asks):
            assert audit.outcome is Outcome.FAILED or audit.reason, audit


def leases_end(ended: Ended) -> None:
    now = ended.operation.time.wall()
    assert all(row.lease <= now + PACE.lease for row in ended.rows)


def the_evidence_verifies(ended: Ended) -> None:
    bundle = ended.operation.folder / "evidence"
    write_bundle(ended.operation.log(), bundle)
    report = verify(Bundle.open(bundle), SIGNER.verifier)
    assert report.findings == ()
    assert report.audits == len(ended.leaves)


INVARIANTS: tuple[Callable[[Ended], None], ...] = (
    no_audit_is_recorded_twice,
    numbers_have_no_gaps,
    every_due_audit_is_explained,
    nobody_is_blamed_without_a_fault,
    every_loss_is_found_or_explained,
    leases_end,
    the_evidence_verifies,
)
