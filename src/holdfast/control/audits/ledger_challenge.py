"""A challenge on its ledger: it is opened, answered or expired there, and its verdict is read."""

from collections.abc import Callable
from functools import cached_property

from holdfast.control.audits.pending import PendingAudit
from holdfast.control.audits.types import NoAnswer, Subject
from holdfast.control.audits.verdicts import Verdict, find_verdict, verdict_in
from holdfast.errors import LedgerError, StorageError
from holdfast.ledger.interface import (
    Answer,
    Batch,
    Ledger,
    LedgerRefusedError,
    Reason,
    Receipt,
    holding_id,
)
from holdfast.node.proof_messages import AnswerTo, ProofQuestion

Openings = dict[bytes, int | Exception]  # the gas or the error of batches, by their seeds


class LedgerChallenge:
    """The challenge of one audit, alone or in a batch that is opened in one transaction."""

    def __init__(
        self, subject: Subject, ledger: Ledger, pending: PendingAudit, batch: Batch | None
    ) -> None:
        if (batch is None) is not (pending.batch is None):
            raise StorageError("an audit has lost its batch")
        self.ledger, self.batch, self.index = ledger, batch, pending.index
        self._subject, self._challenge = subject, pending.challenge
        self._opening, self._since = pending.opening, pending.since

    @cached_property
    def holding_id(self) -> int:
        """The holding's id on the ledger, which contains the owner's address."""
        return holding_id(self.ledger.sender, self._subject.number)

    @cached_property
    def name(self) -> bytes:
        """The challenge's name on the ledger."""
        if self.batch is not None:
            return self.batch.challenge_id(self.index)
        return self._opening.name(self.holding_id, self._challenge)

    @cached_property
    def question(self) -> ProofQuestion:
        """What the node is asked: a proof that is signed for this challenge on this ledger."""
        to = AnswerTo.of(self.ledger.domain, self.holding_id, self._opening)
        return ProofQuestion(self._subject.key.public.id, self._challenge, to)

    def open(self, openings: Openings) -> int:
        """Open the challenge unless it is open; return its share of the gas.

        A batch opens once for all audits in it, and `openings` keeps what came of that.
        """
        if self.batch is None:
            return _gas_unless_open(self._open_alone)
        seed = self.batch.seed
        if seed not in openings:
            openings[seed] = self._open_batch(self.batch)
        opened = openings[seed]
        if isinstance(opened, Exception):
            raise opened
        return opened

    def _open_alone(self) -> Receipt:
        opening = self._opening
        return self.ledger.open(
            self._subject.number, self._challenge, opening.target, opening.deadline
        )

    def _open_batch(self, batch: Batch) -> int | Exception:
        try:
            return _gas_unless_open(lambda: self.ledger.open_many(batch)) // len(batch.words)
        except (LedgerError, LedgerRefusedError) as error:
            return error

    def settle(self, answer: Answer) -> Verdict | NoAnswer | None:
        """Submit the answer, which may be too late to count; None if it is not open any more."""
        try:
            if self.batch is not None:
                receipt = self.ledger.settle(self.batch, {self.index: answer})
            else:
                receipt = self.ledger.submit(self.holding_id, self.name, answer)
        except LedgerRefusedError as error:
            if error.reason in {Reason.LATE, Reason.MALFORMED, Reason.WRONG}:
                return NoAnswer(str(error), late=error.reason is Reason.LATE)
            if error.reason is not Reason.UNKNOWN:
                raise
            return self.find_verdict()  # a crash may have lost its receipt
        return self._expect_verdict(receipt)

    def expire(self) -> Verdict:
        """Have the ledger record that the deadline has passed."""
        if self.batch is not None:
            return self._expect_verdict(self.ledger.expire_many(self.batch, [self.index]))
        return self._expect_verdict(self.ledger.expire(self.holding_id, self.name))

    def find_verdict(self) -> Verdict | None:
        """Return the verdict that the ledger has already."""
        return find_verdict(self.ledger, self.holding_id, self.name, self._since)

    def verdict_in(self, receipt: Receipt) -> Verdict | None:
        return verdict_in(receipt, self.holding_id, self.name)

    def _expect_verdict(self, receipt: Receipt) -> Verdict:
        verdict = self.verdict_in(receipt)
        if verdict is None:
            raise StorageError("the ledger's receipt has no verdict on the challenge")
        return verdict


def _gas_unless_open(call: Callable[[], Receipt]) -> int:
    """Return the gas of opening a challenge or a batch; 0 if it is open already."""
    try:
        return call().gas
    except LedgerRefusedError as error:
        if error.reason is not Reason.OPEN:
            raise
        return 0
