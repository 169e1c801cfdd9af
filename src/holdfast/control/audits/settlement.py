"""The settlement: what goes to the ledger of an audit, and how the audit ends.

An audit ends with the ledger's verdict. What a refusal, an outage or a crash leaves open is sent
again, or looked up where the ledger has it already. A silence counts against a node only if it is
the node's: we asked until the deadline, and no answer was in hand before it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from holdfast.control.audits.pending import PendingAudit
from holdfast.control.audits.types import AuditResult, Deferred
from holdfast.control.scheduling.telemetry import Outcome
from holdfast.control.settings.models import Timeouts
from holdfast.durations import SECOND
from holdfast.errors import LedgerError, StorageError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
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
from holdfast.owner.audit import MIN_ASK_SECONDS, Finding, NoAnswer, Subject
from holdfast.pdp import verify_with_key

OUTCOMES = {
    audit.Outcome.PASSED: Outcome.PASSED,
    audit.Outcome.FAILED: Outcome.FAILED,
    audit.Outcome.TIMEOUT: Outcome.TIMED_OUT,
}


Absence = Callable[["RunningAudit"], str]

PROOF_SECONDS = 60.0
PROOF_LOST = "it passed on the ledger, but an interruption lost its proof"
FAILURE_LOST = "it failed on the ledger, and an interruption lost its proof"
CHANGED = "the holding was changed while its audit was under way"
WE_WERE_LATE = "its answer came before the deadline, and we brought it to the ledger after it"
WE_WERE_AWAY = "something of ours was away: we can't show that we asked the node until the deadline"
OPENED_LATE = "the challenge was opened late: the node had less than half of its time"
WRONG_AND_LATE = (
    "the node signed a wrong proof, so late that it reached the ledger after the deadline"
)


@dataclass(frozen=True)
class Reply:
    """What came of asking a node once. Times are milliseconds since 1970."""

    told: Answer | NoAnswer
    sent: int
    ended: int


def settle_answers(going: Sequence["RunningAudit"]) -> None:
    """Bring the answers in hand to the ledger, those of a batch many at once.

    Where the ledger refuses, as it does all for the sake of one, each is settled by itself; where
    it can't be reached, later.
    """
    for batch, members in _by_batch(going):
        ledger, at = members[0].ledger, {member.index: member for member in members}
        answers = {member.index: member.answer for member in members if member.answer}
        for some in Batch.neighbours(answers, max_answers(ledger.sectors)):
            with _heard_by([at[index] for index in some]) as hear:
                hear(ledger.settle(batch, {index: answers[index] for index in some}))
    for member in going:
        member.settle()


def expire_together(going: Sequence["RunningAudit"], patience: Timeouts, now: int) -> None:
    """Have the ledger say that time has run out for what nodes left unanswered, many at once."""
    for batch, members in _by_batch(going):
        at = {member.index: member for member in members if member.expired(patience, now)}
        for some in Batch.neighbours(at):
            with _heard_by([at[index] for index in some]) as hear:
                hear(members[0].ledger.expire_many(batch, some))


def _by_batch(going: Sequence["RunningAudit"]) -> Iterator[tuple[Batch, list["RunningAudit"]]]:
    members: dict[bytes, list[RunningAudit]] = {}
    for member in going:
        if member.batch is not None:
            members.setdefault(member.batch.seed, []).append(member)
    for some in members.values():
        if batch := some[0].batch:
            yield batch, some


@contextmanager
def _heard_by(going: Sequence["RunningAudit"]) -> Iterator[Callable[[Receipt], None]]:
    def hear(receipt: Receipt) -> None:
        for each in going:
            each.hear(receipt)

    try:
        yield hear
    except LedgerRefusedError:
        return
    except LedgerError as error:
        for each in going:
            each.defer(error)


class RunningAudit:
    """One audit between its departure and its end."""

    def __init__(
        self,
        subject: Subject,
        ledger: Ledger,
        flight: PendingAudit,
        batch: Batch | None,
        *,
        anew: bool,
    ) -> None:
        self.ledger, self.batch = ledger, batch
        self._subject, self._flight, self._anew = subject, flight, anew
        self._question = flight.question(audit.id_on(ledger, subject), batch)
        self._answered: int | None = None
        self._asked: int | None = None  # when asking ended, in this go
        self._delivered = False  # in this go
        self._late: Answer | None = None  # in hand before the deadline, at the ledger after it
        self._ended: Finding | None = None
        self._judged_before = False  # whether the ledger had its verdict when this go began
        self.told: Answer | NoAnswer | LedgerError | LedgerRefusedError | None = None

    @property
    def index(self) -> int:
        return self._flight.index

    @property
    def node(self) -> bytes:
        return self._subject.address

    @property
    def flight(self) -> PendingAudit:
        return self._flight

    @property
    def answer(self) -> Answer | None:
        """The answer that is not settled yet."""
        return self.told if isinstance(self.told, Answer) and self._ended is None else None

    @property
    def reached(self) -> bool:
        """Whether the node took the challenge in this go."""
        return self._delivered

    def count(self) -> None:
        """Have this challenge compared with the node's probes."""
        self._flight = replace(self._flight, counted=True)

    def met(self) -> bool:
        """Return whether a challenge that is to be compared met the node, once."""
        met = self._flight.counted and self._flight.delivered
        if met:
            self._flight = replace(self._flight, counted=False)
        return met

    def seconds(self, now: int) -> float:
        """Return the time for which the node may be asked."""
        if self._ended is not None:
            return PROOF_SECONDS  # it has its verdict, and is asked for its proof alone
        return max(self.left(now), MIN_ASK_SECONDS)

    def left(self, now: int) -> float:
        """Return the seconds until the deadline."""
        return (self._flight.deadline * SECOND - now) / SECOND

    def expired(self, patience: Timeouts, now: int) -> bool:
        """Return whether the ledger can be told that the node did not answer in time."""
        silent = isinstance(self.told, NoAnswer) and self._ended is None
        return silent and self.left(now) < 0 and not self._excuse(patience)

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
            if not self._anew and flight.opened_at is None:
                self._ended = self._found()
            self._judged_before = self._ended is not None
            timed_out = self._ended is not None and self._ended.outcome is audit.Outcome.TIMEOUT
            if self._ended is not None and not timed_out:
                return
            if timed_out or self.left(now) < 0:
                self.told = NoAnswer("the deadline passed", delivered=False)
            elif flight.opened_at is None:
                spent = flight.spent + self._open(batches)
                self._flight = replace(flight, opened_at=now, spent=spent)
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

    def ask(self, clock: Callable[[], int], share: float = 1.0) -> Reply:
        """Ask the node once, for that share of the time until the deadline and no longer."""
        sent = clock()
        seconds = max(share * self.seconds(sent), MIN_ASK_SECONDS)
        told: Answer | NoAnswer
        try:
            told = audit.ask(self.ledger, self._subject, self._question, seconds)
        except NodeRefusedError as error:  # it has another inventory than ours
            told = NoAnswer(str(error))
        return Reply(told, sent, clock())

    def take(self, reply: Reply) -> None:
        """Take what asking the node came to."""
        told = reply.told
        self._answered = reply.ended if isinstance(told, Answer) else None
        self._asked, self._delivered = reply.ended, not isinstance(told, NoAnswer) or told.delivered
        delivered = self._flight.delivered or self._delivered
        tries = self._flight.tries + 1
        self._flight = replace(self._flight, sent=reply.sent, tries=tries, delivered=delivered)
        self.told = told

    def settle(self) -> None:
        """Bring the answer to the ledger by itself, if there is one that is not settled."""
        answer = self.answer
        if answer is None:
            return
        try:
            told = self._settled(answer)
        except (LedgerError, LedgerRefusedError) as error:
            self.defer(error)
            return
        if isinstance(told, Finding):
            self._ended = told
            return
        if told.late and self._in_time():
            self._flight, self._late = replace(self._flight, answered=self._answered), answer
        self.told = told

    def defer(self, error: LedgerError | LedgerRefusedError) -> None:
        """Take note that the ledger did not take what we brought."""
        if isinstance(error, LedgerError) and self._in_time():
            self._flight = replace(self._flight, answered=self._answered)
        self.told = error

    def _in_time(self) -> bool:
        return self._answered is not None and self.left(self._answered) >= 0

    def _settled(self, answer: Answer) -> Finding | NoAnswer:
        try:
            return audit.settle(self.ledger, self._subject, self._question, answer)
        except LedgerRefusedError as error:
            if error.reason is not Reason.UNKNOWN:
                raise
            found = self._found()  # a crash kept us from hearing of it
            if found is not None:
                return found
            self._flight = replace(self._flight, opened_at=None)  # a reorganisation undid it
            return NoAnswer(str(error))

    def concluded(self, patience: Timeouts, now: int, absence: Absence) -> AuditResult | Deferred:
        """Return how the audit ended, or when it goes on.

        `absence` says why a node that could not be reached counts as failing, if it does.
        """
        try:
            if isinstance(self.told, Answer) and self._ended is not None:
                return self._with_answer(self._ended, self.told)
            if isinstance(self.told, NoAnswer):
                return self._without_answer(self.told, patience, now, absence)
        except (LedgerError, LedgerRefusedError) as error:
            self.told = error
        return self._again(str(self.told), patience, now)

    def _with_answer(self, ended: Finding, answer: Answer) -> AuditResult:
        """Return the result, without a proof that came after the verdict and does not fit it.

        A node may have been repaired since its proof failed, or may lie the second time.
        """
        failed = ended.outcome is audit.Outcome.FAILED
        if self._judged_before and self._refuted_by(answer) is not failed:
            outcome = Outcome.FAILED if failed else Outcome.UNKNOWN
            return self._result(ended, None, outcome, FAILURE_LOST if failed else PROOF_LOST)
        return self._result(ended, answer)

    def _without_answer(
        self, silence: NoAnswer, patience: Timeouts, now: int, absence: Absence
    ) -> AuditResult | Deferred:
        if self.left(now) >= 0 and self._late is None:
            return self._again(silence.reason, patience, now)
        if excuse := self._excuse(patience):
            return self._excused(excuse)
        try:
            ended = self._ended or audit.expire(self.ledger, self._subject, self._question, silence)
        except LedgerRefusedError as error:
            if error.reason is Reason.EARLY:  # a chain's clock stands still between blocks
                return self._again(silence.reason, patience, now)
            if error.reason is not Reason.UNKNOWN:
                raise
            found = self._found()
            if found is None:
                return self._result(None, None, Outcome.UNKNOWN, "the ledger does not know it")
            ended = found
        return self._result(ended, None, *self._without_proof(ended, silence, absence))

    def _without_proof(
        self, ended: Finding, silence: NoAnswer, absence: Absence
    ) -> tuple[Outcome, str]:
        """Return what a verdict means that no proof came with, and why."""
        flight = self._flight
        if ended.outcome is audit.Outcome.PASSED:
            return Outcome.UNKNOWN, PROOF_LOST
        if self._subject.inventory.hash != flight.challenge.inventory_hash:
            return Outcome.UNKNOWN, CHANGED
        reason = self._reason(silence.reason) or silence.reason
        if ended.outcome is not audit.Outcome.TIMEOUT or flight.delivered:
            return OUTCOMES[ended.outcome], reason
        failing = absence(self)
        return (Outcome.TIMED_OUT, f"{failing}; {reason}") if failing else (Outcome.OFFLINE, reason)

    def _reason(self, newest: str) -> str:
        """Return why there is no answer: what the node did counts for more than its absence."""
        flight = self._flight
        known = self._asked is None or (flight.delivered and not self._delivered)
        return flight.reason if known or not isinstance(self.told, NoAnswer) else plain(newest)

    def _excuse(self, patience: Timeouts) -> str:
        """Return why a silence is ours and not the node's, if it is."""
        flight, deadline = self._flight, self._flight.deadline * SECOND
        if flight.answered is not None:
            return WE_WERE_LATE
        if not flight.tries or self._planned(patience) < deadline - patience.last_try:
            return WE_WERE_AWAY
        if flight.opened_at is None or flight.opened_at > deadline - patience.deadline // 2:
            return OPENED_LATE
        return ""

    def _planned(self, patience: Timeouts) -> int:
        """Return when we were to try again after we last asked."""
        asked = self._asked
        return self._flight.next_try if asked is None else self.next_try(patience, asked)

    def _excused(self, excuse: str) -> AuditResult:
        """End without a word against the node on the ledger, unless it signed a wrong proof."""
        ended, answer = self._ended or self._found(), self._late
        if ended is not None and ended.outcome is not audit.Outcome.TIMEOUT:
            failed = ended.outcome is audit.Outcome.FAILED
            outcome = Outcome.FAILED if failed else Outcome.UNKNOWN
            return self._result(ended, None, outcome, FAILURE_LOST if failed else PROOF_LOST)
        if answer is not None and self._refuted_by(answer):
            return self._result(ended, answer, Outcome.FAILED, WRONG_AND_LATE)
        return self._result(ended, answer, Outcome.UNKNOWN, excuse)

    def _refuted_by(self, answer: Answer) -> bool:
        """Return whether the proof is wrong by our own check."""
        challenge, inventory = self._flight.challenge, self._subject.inventory
        return inventory.hash == challenge.inventory_hash and not verify_with_key(
            self._subject.key, inventory, challenge, answer.proof
        )

    def _found(self) -> Finding | None:
        """Return the verdict that the ledger has already."""
        return audit.verdict_on(self.ledger, self._subject, self._question, self._flight.since)

    def _again(self, reason: str, patience: Timeouts, now: int) -> Deferred:
        at = self.next_try(patience, now)
        planned = at if self.left(now) >= 0 else self._planned(patience)
        flight = replace(self._flight, reason=self._reason(reason), next_try=planned)
        trouble = str(self.told) if isinstance(self.told, LedgerError) else None
        return Deferred(at, flight.encode(), trouble)

    def next_try(self, patience: Timeouts, now: int) -> int:
        """Return when the node is asked again, or the deadline is over."""
        deadline = self._flight.deadline * SECOND
        pause = min(patience.first_pause << min(self._flight.tries, 20), patience.longest_pause)
        last, over = deadline - patience.last_try, deadline + SECOND
        if now < last:
            return min(now + pause, last)
        return over if now < over else now + pause

    def _result(
        self,
        ended: Finding | None,
        answer: Answer | None,
        outcome: Outcome | None = None,
        reason: str = "",
    ) -> AuditResult:
        domain, subject, flight = self.ledger.domain, self._subject, self._flight
        if outcome is None:
            if ended is None:
                raise StorageError("an audit ended without an outcome")
            outcome = OUTCOMES[ended.outcome]
        return AuditResult(
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
