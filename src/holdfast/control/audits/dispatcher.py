"""Gives each audit to the auditor of its family: proofs by nodes, or checks of other storage.

A worker sees one auditor.
"""

from collections.abc import Collection, Sequence

from holdfast.control.audits.pending import Pending, PendingAudit
from holdfast.control.audits.pending_check import PendingCheck
from holdfast.control.audits.types import Auditor, AuditResult, Deferred, PreparedBatch
from holdfast.control.scheduling.claims import Claim

Ended = tuple[Claim, AuditResult | Deferred]


class Dispatcher:
    def __init__(self, proofs: Auditor[PendingAudit], checks: Auditor[PendingCheck]) -> None:
        self._proofs, self._checks = proofs, checks
        self._proving: set[int] = set()  # holdings that nodes have still to answer for

    def gas_price(self) -> int:
        return self._proofs.gas_price()

    def prepare(self, claims: Sequence[Claim]) -> PreparedBatch:
        """Prepare the audits of both families, in the order of the claims."""
        checked = [claim for claim in claims if claim.checked]
        if not checked:
            return self._proofs.prepare(claims)
        proven = [claim for claim in claims if not claim.checked]
        checks = self._checks.prepare(checked)
        proofs = self._proofs.prepare(proven) if proven else PreparedBatch(())
        audits = {
            claim.id: audit
            for claim, audit in (
                *zip(checked, checks.audits, strict=True),
                *zip(proven, proofs.audits, strict=True),
            )
        }
        return PreparedBatch([audits[claim.id] for claim in claims], proofs.batches)

    def start(self, audits: Sequence[tuple[Claim, Pending]]) -> None:
        checks = [(c, pending) for c, pending in audits if isinstance(pending, PendingCheck)]
        proofs = [(c, pending) for c, pending in audits if isinstance(pending, PendingAudit)]
        if checks:
            self._checks.start(checks)
        if proofs:
            self._proving |= {claim.id for claim, _ in proofs}
            self._proofs.start(proofs)

    def collect(self, seconds: float) -> Sequence[Ended]:
        """Return what has ended. Nodes are waited for first: they have deadlines."""
        if not self._proving:
            return self._checks.collect(seconds)
        ended = list(self._checks.collect(0.0))
        proofs = self._proofs.collect(0.0 if ended else seconds)
        self._proving -= {claim.id for claim, _ in proofs}
        return [*ended, *proofs]

    def release(self, claims: Sequence[Claim]) -> None:
        self._proofs.release([claim for claim in claims if not claim.checked])
        self._checks.release([claim for claim in claims if claim.checked])

    def busy_nodes(self) -> Collection[bytes]:
        return self._proofs.busy_nodes()

    def abandon(self) -> None:
        self._proving.clear()
        self._proofs.abandon()
        self._checks.abandon()
