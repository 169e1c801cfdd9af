"""Settles audits on the ledger: answers soon after they arrive, those of a batch together.

If the ledger refuses several at once, which it does because of a single one, each is settled on its
own; if it can't be reached, later.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.control.audits.running_audit import RunningAudit
from holdfast.control.settings.models import Timeouts
from holdfast.errors import LedgerError
from holdfast.ledger.interface import Batch, Ledger, LedgerRefusedError, Receipt, max_answers


class Settlement:
    """Answers that are not settled yet.

    Where a transaction costs something, the answers of a batch wait a little for those that are
    still to come, but never for longer than half of the time until their deadline.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._answers: dict[bytes | None, _Answers] = {}  # by the batch's seed

    def add(self, audit: RunningAudit) -> None:
        seed, ledger = _seed(audit), audit.challenge.ledger
        if seed not in self._answers:
            self._answers[seed] = _Answers(ledger.quiet_seconds if seed else 0.0)
        self._answers[seed].add(audit, max(audit.left(self._clock()), 0.0))

    @property
    def wait_seconds(self) -> float:
        """The time until answers must be settled."""
        until = min((answers.until for answers in self._answers.values()), default=math.inf)
        return max(until - time.monotonic(), 0.0)

    def settle(self, asked: Iterable[RunningAudit]) -> list[RunningAudit]:
        """Settle what waits no longer and return it; for `asked`, answers are still to come."""
        coming, now = {_seed(audit) for audit in asked}, time.monotonic()
        settled: dict[Ledger, list[RunningAudit]] = {}
        for seed, answers in list(self._answers.items()):
            if seed not in coming or answers.until <= now:
                del self._answers[seed]
                for audit in answers.audits:
                    settled.setdefault(audit.challenge.ledger, []).append(audit)
        for ledger, audits in settled.items():
            settle_answers(ledger, audits)
        return [audit for audits in settled.values() for audit in audits]


def _seed(audit: RunningAudit) -> bytes | None:
    """Return the seed of the audit's batch; None if it was opened alone."""
    return None if audit.challenge.batch is None else audit.challenge.batch.seed


class _Answers:
    """The answers of one batch, and until when they wait for more, by the monotonic clock."""

    def __init__(self, quiet_seconds: float) -> None:
        self._quiet = quiet_seconds
        self._latest = self.until = math.inf
        self.audits: list[RunningAudit] = []

    def add(self, audit: RunningAudit, left: float) -> None:
        now = time.monotonic()
        self.audits.append(audit)
        self._latest = min(self._latest, now + left / 2)
        self.until = min(self._latest, now + min(self._quiet, left / 4))


def settle_answers(ledger: Ledger, audits: Sequence[RunningAudit]) -> None:
    """Settle the answers of one ledger."""
    with ledger.together():
        for batch, members in _by_batch(audits):
            by_index = {member.challenge.index: member for member in members}
            answers = {index: member.answer for index, member in by_index.items()}
            unsettled = {index: answer for index, answer in answers.items() if answer}
            for indices in Batch.neighbours(unsettled, max_answers(ledger.sectors)):
                with _reader([by_index[index] for index in indices]) as read_verdicts:
                    read_verdicts(
                        ledger.settle(batch, {index: unsettled[index] for index in indices})
                    )
        for audit in audits:
            audit.settle()


def expire_audits(audits: Sequence[RunningAudit], patience: Timeouts, now: int) -> None:
    """Have the ledger record that the time has run out for audits without an answer."""
    late = [audit for audit in audits if audit.can_expire(patience, now)]
    for batch, members in _by_batch(late):
        expired = {member.challenge.index: member for member in members}
        for indices in Batch.neighbours(expired):
            with _reader([expired[index] for index in indices]) as read_verdicts:
                read_verdicts(members[0].challenge.ledger.expire_many(batch, indices))


def _by_batch(audits: Sequence[RunningAudit]) -> Iterator[tuple[Batch, list[RunningAudit]]]:
    batches: dict[bytes, tuple[Batch, list[RunningAudit]]] = {}
    for audit in audits:
        if batch := audit.challenge.batch:
            batches.setdefault(batch.seed, (batch, []))[1].append(audit)
    return iter(batches.values())


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
