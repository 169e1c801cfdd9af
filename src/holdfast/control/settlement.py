"""The settlement: what the ledger is told of an audit, and how it ends.

An audit ends with the ledger's verdict. What a refusal, an outage or a crash leaves open is told
again, or found where the ledger has it already.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from holdfast.control.auditor import Later, Result
from holdfast.control.flight import Flight
from holdfast.control.rails import SECOND
from holdfast.control.telemetry import Outcome
from holdfast.errors import LedgerError, StorageError
from holdfast.evidence import leaf
from holdfast.evidence.form import plain
from holdfast.ledger.interface import (
    Answer,
    Batch,
    Ledger,
    LedgerRefusedError,
    Reason,
    Receipt,
    max_answers,
)
from holdfast.node.wire import NodeRefusedError
from holdfast.owner import audit
from holdfast.owner.audit import Finding, Silence, Subject

OUTCOMES = {
    audit.Outcome.PASSED: Outcome.PASSED,
    audit.Outcome.FAILED: Outcome.FAILED,
    audit.Outcome.TIMEOUT: Outcome.TIMED_OUT,
}


@dataclass(frozen=True)
class Patience:
    """How long a node may take, and how often it is asked again."""

    deadline: int = 3600 * SECOND
    first_pause: int = 5 * SECOND
    longest_pause: int = 600 * SECOND
    at_once: int = 16  # nodes asked side by side


def settle_together(batch: Batch, going: Sequence["Going"], now: int) -> None:
    """Bring what can be settled of a batch to the ledger, many at once.

    Where the ledger refuses all for the sake of a wrong one, each is left to be settled by itself;
    where it can't be reached, to be settled later.
    """
    ledger, at = going[0].ledger, {each.index: each for each in going}
    answers = {each.index: each.answer for each in going if each.answer}
    silent = [each.index for each in going if each.expired(now)]
    for some in Batch.neighbours(answers, max_answers(ledger.sectors)):
        with _heard_by([at[index] for index in some]) as hear:
            hear(ledger.settle(batch, {index: answers[index] for index in some}))
    for some in Batch.neighbours(silent):
        with _heard_by([at[index] for index in some]) as hear:
            hear(ledger.expire_many(batch, some))


@contextmanager
def _heard_by(going: Sequence["Going"]) -> Iterator[Callable[[Receipt], None]]:
    def hear(receipt: Receipt) -> None:
        for each in going:
            each.hear(receipt)

    try:
        yield hear
    except LedgerRefusedError:
        return
    except LedgerError as error:
        for each in going:
            each.told = error


class Going:
    """One audit between its departure and its end."""

    def __init__(
        self, subject: Subject, ledger: Ledger, flight: Flight, batch: Batch | None, *, anew: bool
    ) -> None:
        self.ledger, self.batch = ledger, batch
        self._subject, self._flight, self._anew = subject, flight, anew
        self._question = flight.question(audit.id_on(ledger, subject), batch)
        self._answered: int | None = None
        self._ended: Finding | None = None
        self.told: Answer | Silence | LedgerError | LedgerRefusedError | None = None

    @property
    def index(self) -> int:
        return self._flight.index

    @property
    def answer(self) -> Answer | None:
        """The answer that the ledger has not heard of yet."""
        return self.told if isinstance(self.told, Answer) and self._ended is None else None

    def expired(self, now: int) -> bool:
        """Return whether the ledger can be told that nobody answered in time."""
        late = now > self._flight.deadline * SECOND
        return late and isinstance(self.told, Silence) and self._ended is None

    def hear(self, receipt: Receipt) -> None:
        """Take the verdict from what settled several audits at once.

        An audit that was settled before is left out there: its verdict is looked up by itself.
        """
        with suppress(LookupError):
            self._ended = audit.verdict_in(receipt, self._subject, self._question)

    def open(self, now: int, batches: dict[bytes, int | Exception]) -> None:
        """Open the challenge, or find what became of it if it is not open any more.

        A batch opens once for all that are in it; `batches` has what came of that. What a crash has
        interrupted may have its verdict already.
        """
        flight = self._flight
        try:
            if not self._anew and not flight.opened:
                self._ended = self._found()
            if self._ended is not None:
                return
            if now > flight.deadline * SECOND:
                self.told = Silence("the deadline passed", flight.reached)
            elif not flight.opened:
                spent = flight.spent + self._open(batches)
                self._flight = replace(flight, opened=True, spent=spent)
        except (LedgerError, LedgerRefusedError) as error:
            self.told = error

    def _open(self, batches: dict[bytes, int | Exception]) -> int:
        """Have the challenge opened, and return its share of the gas."""
        seed = self._flight.batch
        if seed is None:
            return audit.open_on(self.ledger, self._subject, self._question)
        if seed not in batches:
            try:
                batches[seed] = audit.open_on(self.ledger, self._subject, self._question)
            except (LedgerError, LedgerRefusedError) as error:
                batches[seed] = error
        came = batches[seed]
        if isinstance(came, Exception):
            raise came
        return came

    def ask(self, clock: Callable[[], int]) -> None:
        flight, sent = self._flight, clock()
        try:
            self.told = audit.ask(self.ledger, self._subject, self._question)
        except NodeRefusedError as error:  # it has another inventory than ours
            self.told = Silence(str(error))
        self._answered = clock()
        self._flight = replace(flight, sent=sent, tries=flight.tries + 1)

    def concluded(self, patience: Patience, now: int) -> Result | Later:
        try:
            if isinstance(self.told, Answer):
                answer, told = self.told, self._settled(self.told)
                if isinstance(told, Finding):
                    return self._result(told, answer)
                self.told = told
            if isinstance(self.told, Silence):
                return self._without_answer(self.told, patience, now)
        except (LedgerError, LedgerRefusedError) as error:
            self.told = error
        return self._again(str(self.told), patience, now)

    def _settled(self, answer: Answer) -> Finding | Silence:
        if self._ended is not None:
            return self._ended
        try:
            return audit.settle(self.ledger, self._subject, self._question, answer)
        except LedgerRefusedError as error:
            if error.reason is not Reason.UNKNOWN:
                raise
            found = self._found()  # a crash kept us from hearing of it
            if found is not None:
                return found
            self._flight = replace(self._flight, opened=False)  # a reorganisation undid it
            return Silence(str(error))

    def _without_answer(self, silence: Silence, patience: Patience, now: int) -> Result | Later:
        flight = replace(self._flight, reached=self._flight.reached or silence.reached)
        self._flight = flight
        if now <= flight.deadline * SECOND:
            return self._again(silence.reason, patience, now)
        try:
            ended = self._ended or audit.expire(self.ledger, self._subject, self._question, silence)
        except LedgerRefusedError as error:
            if error.reason is Reason.EARLY:  # a chain's clock stands still between blocks
                return self._again(silence.reason, patience, now)
            if error.reason is not Reason.UNKNOWN:
                raise
            found = self._found()
            if found is None:
                return self._result(None, None, Outcome.UNKNOWN, "it was never opened in time")
            ended = found
        return self._result(ended, None, *self._without_proof(ended, silence))

    def _without_proof(self, ended: Finding, silence: Silence) -> tuple[Outcome, str]:
        """Return what a verdict means that no proof came with, and why."""
        flight = self._flight
        if ended.outcome is audit.Outcome.PASSED:
            return Outcome.UNKNOWN, "it passed on the ledger, but an interruption lost its proof"
        if self._subject.inventory.hash != flight.challenge.inventory_hash:
            return Outcome.UNKNOWN, "the holding was changed while its audit was under way"
        reason = flight.reason or silence.reason
        if ended.outcome is audit.Outcome.TIMEOUT and not flight.reached:
            return Outcome.OFFLINE, reason
        return OUTCOMES[ended.outcome], reason

    def _found(self) -> Finding | None:
        """Return the verdict that the ledger has already."""
        return audit.verdict_on(self.ledger, self._subject, self._question, self._flight.since)

    def _again(self, reason: str, patience: Patience, now: int) -> Later:
        flight = replace(self._flight, reason=plain(reason))
        pause = min(patience.first_pause << min(flight.tries, 20), patience.longest_pause)
        last = flight.deadline * SECOND + SECOND
        at = min(now + pause, last) if now < last else now + pause
        trouble = str(self.told) if isinstance(self.told, LedgerError) else None
        return Later(at, flight.encode(), trouble)

    def _result(
        self,
        ended: Finding | None,
        answer: Answer | None,
        outcome: Outcome | None = None,
        reason: str = "",
    ) -> Result:
        domain, subject, flight = self.ledger.domain, self._subject, self._flight
        if outcome is None:
            if ended is None:
                raise StorageError("an audit ended without an outcome")
            outcome = OUTCOMES[ended.outcome]
        return Result(
            outcome=outcome,
            reason=plain(reason),
            due=flight.due,
            holding=leaf.Holding(
                domain.chain,
                domain.contract,
                audit.id_on(self.ledger, subject),
                subject.key.public.id,
                subject.address,
            ),
            challenge=flight.challenge,
            target=flight.target.point,
            opening=leaf.Opening(self._question.name, flight.deadline * SECOND, flight.batch),
            sent=flight.sent,
            answered=None if answer is None else self._answered,
            proof=None if answer is None else answer.proof,
            signature=None if answer is None else answer.signature,
            verdict=None
            if ended is None
            else leaf.Transaction(ended.transaction, ended.block, ended.gas),
            spent=flight.spent,
        )
