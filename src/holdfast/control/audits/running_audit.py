"""One running audit: opens its challenge, asks the node, settles the answer and ends.

An audit ends with the ledger's verdict. After a refusal, an outage or a crash the answer is sent
again, or the verdict is looked up on the ledger. No answer counts against a node only if we asked
until the deadline and had no answer before it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from holdfast.control.audits.pending import PendingAudit
from holdfast.control.audits.types import AuditResult, Deferred
from holdfast.control.settings.models import Timeouts
from holdfast.durations import SECOND
from holdfast.errors import LedgerError, StorageError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
from holdfast.evidence.leaf import Outcome
from holdfast.ledger.interface import (
    Answer,
    Batch,
    Ledger,
    LedgerRefusedError,
    Reason,
    Receipt,
)
from holdfast.node.wire import NodeRefusedError
from holdfast.owner import audit
from holdfast.owner.audit import MIN_ASK_SECONDS, Finding, NoAnswer, Subject
from holdfast.pdp import verify_with_key

OUTCOMES = {
    audit.LedgerVerdict.PASSED: Outcome.PASSED,
    audit.LedgerVerdict.FAILED: Outcome.FAILED,
    audit.LedgerVerdict.TIMEOUT: Outcome.TIMED_OUT,
}


JudgeAbsence = Callable[["RunningAudit"], str]  # why an unreachable node counts as failing, or ""

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
    """What a node answered to one request. Times are milliseconds since 1970."""

    answer: Answer | NoAnswer
    sent: int
    ended: int


class RunningAudit:
    """One audit from its opening to its end."""

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
        self._asked: int | None = None  # when asking ended, in this run
        self._delivered = False  # in this run
        self._late: Answer | None = None  # received before the deadline, at the ledger after it
        self._ended: Finding | None = None
        self._had_verdict = False  # whether the ledger had its verdict when this run began
        # The newest answer, or why there is none.
        self.latest: Answer | NoAnswer | LedgerError | LedgerRefusedError | None = None

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
        return self.latest if isinstance(self.latest, Answer) and self._ended is None else None

    @property
    def reached(self) -> bool:
        """Whether the node took the challenge in this run."""
        return self._delivered

    def compare_with_probes(self) -> None:
        """Have this challenge compared with the node's probes."""
        self._flight = replace(self._flight, counted=True)

    def pop_compared(self) -> bool:
        """Return whether a challenge to be compared has reached the node; only the first time."""
        reached = self._flight.counted and self._flight.delivered
        if reached:
            self._flight = replace(self._flight, counted=False)
        return reached

    def seconds(self, now: int) -> float:
        """Return the time for which the node may be asked."""
        if self._ended is not None:
            return PROOF_SECONDS  # the verdict is known, and only the proof is missing
        return max(self.left(now), MIN_ASK_SECONDS)

    def left(self, now: int) -> float:
        """Return the seconds until the deadline."""
        return (self._flight.deadline * SECOND - now) / SECOND

    def can_expire(self, patience: Timeouts, now: int) -> bool:
        """Return whether the ledger can record that the node did not answer in time."""
        silent = isinstance(self.latest, NoAnswer) and self._ended is None
        return silent and self.left(now) < 0 and not self._excuse(patience)

    def read_verdict(self, receipt: Receipt) -> None:
        """Take the verdict from the receipt of a batch.

        An audit that was settled before is missing there: its verdict is looked up on its own.
        """
        with suppress(LookupError):
            self._ended = audit.verdict_in(receipt, self._subject, self._question)

    def open(self, now: int, batches: dict[bytes, int | Exception]) -> None:
        """Open the challenge, or look up its verdict if it is not open any more.

        A batch opens once for all audits in it; `batches` has the gas or the error of that. After a
        crash the verdict may be on the ledger already.
        """
        flight = self._flight
        try:
            if not self._anew and flight.opened_at is None:
                self._ended = self._find_verdict()
            self._had_verdict = self._ended is not None
            timed_out = (
                self._ended is not None and self._ended.outcome is audit.LedgerVerdict.TIMEOUT
            )
            if self._ended is not None and not timed_out:
                return
            if timed_out or self.left(now) < 0:
                self.latest = NoAnswer("the deadline passed", delivered=False)
            elif flight.opened_at is None:
                spent = flight.spent + self._open(batches)
                self._flight = replace(flight, opened_at=now, spent=spent)
        except (LedgerError, LedgerRefusedError) as error:
            self.latest = error

    def _open(self, batches: dict[bytes, int | Exception]) -> int:
        """Open the challenge, and return its share of the gas."""
        seed = self._flight.batch
        if seed is None:
            return audit.open_on(self.ledger, self._subject, self._question)
        if seed not in batches:
            try:
                batches[seed] = audit.open_on(self.ledger, self._subject, self._question)
            except (LedgerError, LedgerRefusedError) as error:
                batches[seed] = error
        opened = batches[seed]
        if isinstance(opened, Exception):
            raise opened
        return opened

    def ask(self, clock: Callable[[], int], share: float = 1.0) -> Reply:
        """Ask the node once, for that share of the time until the deadline and no longer."""
        sent = clock()
        seconds = max(share * self.seconds(sent), MIN_ASK_SECONDS)
        answer: Answer | NoAnswer
        try:
            answer = audit.ask(self.ledger, self._subject, self._question, seconds)
        except NodeRefusedError as error:  # it has another inventory than ours
            answer = NoAnswer(str(error))
        return Reply(answer, sent, clock())

    def receive(self, reply: Reply) -> None:
        """Note the node's reply."""
        answer = reply.answer
        self._answered = reply.ended if isinstance(answer, Answer) else None
        self._asked = reply.ended
        self._delivered = not isinstance(answer, NoAnswer) or answer.delivered
        delivered = self._flight.delivered or self._delivered
        tries = self._flight.tries + 1
        self._flight = replace(self._flight, sent=reply.sent, tries=tries, delivered=delivered)
        self.latest = answer

    def settle(self) -> None:
        """Settle the answer on its own, if there is one that is not settled."""
        answer = self.answer
        if answer is None:
            return
        try:
            settled = self._settle(answer)
        except (LedgerError, LedgerRefusedError) as error:
            self.defer(error)
            return
        if isinstance(settled, Finding):
            self._ended = settled
            return
        if settled.late and self._in_time():
            self._flight, self._late = replace(self._flight, answered=self._answered), answer
        self.latest = settled

    def defer(self, error: LedgerError | LedgerRefusedError) -> None:
        """Note that the ledger did not accept the answer."""
        if isinstance(error, LedgerError) and self._in_time():
            self._flight = replace(self._flight, answered=self._answered)
        self.latest = error

    def _in_time(self) -> bool:
        return self._answered is not None and self.left(self._answered) >= 0

    def _settle(self, answer: Answer) -> Finding | NoAnswer:
        try:
            return audit.settle(self.ledger, self._subject, self._question, answer)
        except LedgerRefusedError as error:
            if error.reason is not Reason.UNKNOWN:
                raise
            verdict = self._find_verdict()  # a crash may have lost its receipt
            if verdict is not None:
                return verdict
            self._flight = replace(self._flight, opened_at=None)  # a reorganisation undid it
            return NoAnswer(str(error))

    def conclude(
        self, patience: Timeouts, now: int, judge_absence: JudgeAbsence
    ) -> AuditResult | Deferred:
        """Return the result of the audit, or when it continues."""
        try:
            if isinstance(self.latest, Answer) and self._ended is not None:
                return self._with_answer(self._ended, self.latest)
            if isinstance(self.latest, NoAnswer):
                return self._without_answer(self.latest, patience, now, judge_absence)
        except (LedgerError, LedgerRefusedError) as error:
            self.latest = error
        return self._defer(str(self.latest), patience, now)

    def _with_answer(self, ended: Finding, answer: Answer) -> AuditResult:
        """Return the result, without a proof that came after the verdict and contradicts it.

        A node may have been repaired since its proof failed, or may lie the second time.
        """
        failed = ended.outcome is audit.LedgerVerdict.FAILED
        if self._had_verdict and self._refuted_by(answer) is not failed:
            outcome = Outcome.FAILED if failed else Outcome.UNKNOWN
            return self._result(ended, None, outcome, FAILURE_LOST if failed else PROOF_LOST)
        return self._result(ended, answer)

    def _without_answer(
        self, silence: NoAnswer, patience: Timeouts, now: int, judge_absence: JudgeAbsence
    ) -> AuditResult | Deferred:
        if self.left(now) >= 0 and self._late is None:
            return self._defer(silence.reason, patience, now)
        if excuse := self._excuse(patience):
            return self._excuse_node(excuse)
        try:
            ended = self._ended or audit.expire(self.ledger, self._subject, self._question, silence)
        except LedgerRefusedError as error:
            if error.reason is Reason.EARLY:  # a chain's clock only advances with blocks
                return self._defer(silence.reason, patience, now)
            if error.reason is not Reason.UNKNOWN:
                raise
            verdict = self._find_verdict()
            if verdict is None:
                return self._result(None, None, Outcome.UNKNOWN, "the ledger does not know it")
            ended = verdict
        return self._result(ended, None, *self._without_proof(ended, silence, judge_absence))

    def _without_proof(
        self, ended: Finding, silence: NoAnswer, judge_absence: JudgeAbsence
    ) -> tuple[Outcome, str]:
        """Return the outcome of a verdict without a proof, and its reason."""
        flight = self._flight
        if ended.outcome is audit.LedgerVerdict.PASSED:
            return Outcome.UNKNOWN, PROOF_LOST
        if self._subject.inventory.hash != flight.challenge.inventory_hash:
            return Outcome.UNKNOWN, CHANGED
        reason = self._reason(silence.reason) or silence.reason
        if ended.outcome is not audit.LedgerVerdict.TIMEOUT or flight.delivered:
            return OUTCOMES[ended.outcome], reason
        failing = judge_absence(self)
        return (Outcome.TIMED_OUT, f"{failing}; {reason}") if failing else (Outcome.OFFLINE, reason)

    def _reason(self, newest: str) -> str:
        """Return why there is no answer; what the node did says more than that it was away."""
        flight = self._flight
        known = self._asked is None or (flight.delivered and not self._delivered)
        return flight.reason if known or not isinstance(self.latest, NoAnswer) else plain(newest)

    def _excuse(self, patience: Timeouts) -> str:
        """Return why a missing answer is our fault and not the node's, if it is."""
        flight, deadline = self._flight, self._flight.deadline * SECOND
        if flight.answered is not None:
            return WE_WERE_LATE
        if not flight.tries or self._planned(patience) < deadline - patience.last_try:
            return WE_WERE_AWAY
        if flight.opened_at is None or flight.opened_at > deadline - patience.deadline // 2:
            return OPENED_LATE
        return ""

    def _planned(self, patience: Timeouts) -> int:
        """Return when the next try was planned, after the last one."""
        asked = self._asked
        return self._flight.next_try if asked is None else self.next_try(patience, asked)

    def _excuse_node(self, excuse: str) -> AuditResult:
        """End without blaming the node on the ledger, unless it signed a wrong proof."""
        ended, answer = self._ended or self._find_verdict(), self._late
        if ended is not None and ended.outcome is not audit.LedgerVerdict.TIMEOUT:
            failed = ended.outcome is audit.LedgerVerdict.FAILED
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

    def _find_verdict(self) -> Finding | None:
        """Return the verdict that the ledger has already."""
        return audit.verdict_on(self.ledger, self._subject, self._question, self._flight.since)

    def _defer(self, reason: str, patience: Timeouts, now: int) -> Deferred:
        at = self.next_try(patience, now)
        planned = at if self.left(now) >= 0 else self._planned(patience)
        flight = replace(self._flight, reason=self._reason(reason), next_try=planned)
        trouble = str(self.latest) if isinstance(self.latest, LedgerError) else None
        return Deferred(at, flight.encode(), trouble)

    def next_try(self, patience: Timeouts, now: int) -> int:
        """Return when the node is asked again, or when the deadline has passed."""
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
