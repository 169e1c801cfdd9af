"""Settles audits on the ledger, those of a batch in few transactions.

If the ledger refuses several at once, which it does because of a single one, each is settled on its
own; if it can't be reached, later.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.control.audits.running_audit import RunningAudit
from holdfast.control.settings.models import Timeouts
from holdfast.errors import LedgerError
from holdfast.ledger.interface import Batch, LedgerRefusedError, Receipt, max_answers


def settle_answers(audits: Sequence[RunningAudit]) -> None:
    """Settle the answers received so far."""
    for batch, members in _by_batch(audits):
        ledger, by_index = members[0].ledger, {member.index: member for member in members}
        answers = {member.index: member.answer for member in members if member.answer}
        for indices in Batch.neighbours(answers, max_answers(ledger.sectors)):
            with _reader([by_index[index] for index in indices]) as read_verdicts:
                read_verdicts(ledger.settle(batch, {index: answers[index] for index in indices}))
    for audit in audits:
        audit.settle()


def expire_audits(audits: Sequence[RunningAudit], patience: Timeouts, now: int) -> None:
    """Have the ledger record that the time has run out for audits without an answer."""
    for batch, members in _by_batch(audits):
        expired = {member.index: member for member in members if member.can_expire(patience, now)}
        for indices in Batch.neighbours(expired):
            with _reader([expired[index] for index in indices]) as read_verdicts:
                read_verdicts(members[0].ledger.expire_many(batch, indices))


def _by_batch(audits: Sequence[RunningAudit]) -> Iterator[tuple[Batch, list[RunningAudit]]]:
    batches: dict[bytes, list[RunningAudit]] = {}
    for audit in audits:
        if audit.batch is not None:
            batches.setdefault(audit.batch.seed, []).append(audit)
    for members in batches.values():
        if batch := members[0].batch:
            yield batch, members


@contextmanager
def _reader(audits: Sequence[RunningAudit]) -> Iterator[Callable[[Receipt], None]]:
    """Yield a function that gives each audit its verdict; defer them if the ledger fails."""

    def read_verdicts(receipt: Receipt) -> None:
        for audit in audits:
            audit.read_verdict(receipt)

    try:
        yield read_verdicts
    except LedgerRefusedError:
        return
    except LedgerError as error:
        for audit in audits:
            audit.defer(error)
