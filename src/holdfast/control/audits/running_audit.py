"""One running audit: its challenge, the node's replies, the ledger's verdict and its end.

An audit ends with the ledger's verdict. After a refusal, an outage or a crash the answer is sent
again, or the verdict is looked up on the ledger. No answer counts against a node only if we asked
until the deadline and had no answer before it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.control.audits.ledger_challenge import LedgerChallenge, Openings
from holdfast.control.audits.pending import PendingAudit
from holdfast.control.audits.types import (
    AuditResult,
    Deferred,
    NoAnswer,
    ProofDetail,
    Prover,
    Subject,
)
from holdfast.control.audits.verdicts import Verdict
from holdfast.control.scheduling.claims import Claim
from holdfast.control.settings.models import Timeouts
from holdfast.durations import SECOND
from holdfast.errors import LedgerError, StorageError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
from holdfast.evidence.leaf import Outcome
from holdfast.ledger.interface import Answer, LedgerRefusedError, Reason, Receipt
from holdfast.pdp import Expectation, expect

JudgeAbsence = Callable[["RunningAudit"], str]  # why an unreachable node counts as failing, or ""

MIN_ASK_SECONDS = 0.1
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
ADMITTED = "the node admits the loss"


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
        claim: Claim,
        subject: Subject,
        challenge: LedgerChallenge,
        pending: PendingAudit,
        *,
        fresh: bool,
        expectation: Expectation | None = None,
    ) -> None:
        """Make an audit; a `fresh` one was never started before.

        Without `expectation`, which is kept only in memory, the ledger checks the proof alone.
        """
        self.claim, self.challenge = claim, challenge
        self._subject, self._pending, self._fresh = subject, pending, fresh
        self._expectation = expectation
        self._answered: int | None = None
        self._asked: int | None = None  # when asking ended, in this run
        self._delivered = False  # in this run
        self._late: Answer | None = None  # received before the deadline, at the ledger after it
        self._verdict: Verdict | None = None
        self._had_verdict = False  # whether the ledger had its verdict when this run began
        # The newest answer, or why there is none.
        self.latest: Answer | NoAnswer | LedgerError | LedgerRefusedError | None = None

    @property
    def prover(self) -> Prover:
        return self._subject.node

    @property
    def node(self) -> bytes:
        return self._subject.address

    @property
    def pending(self) -> PendingAudit:
        return self._pending

    @property
    def answer(self) -> Answer | None:
        """The answer that is not settled yet."""
        return self.latest if isinstance(self.latest, Answer) and self._verdict is None else None

    @property
    def reached(self) -> bool:
        """Whether the node took the challenge in this run."""
        return self._delivered

    def compare_with_probes(self) -> None:
        """Have this challenge compared with the node's probes."""
        self._pending = replace(self._pending, counted=True)

    def pop_compared(self) -> bool:
        """Return whether a challenge to be compared has reached the node; only the first time."""
        reached = self._pending.counted and self._pending.delivered
        if reached:
            self._pending = replace(self._pending, counted=False)
        return reached

    def seconds(self, now: int) -> float:
        """Return the time for which the node may be asked."""
        if self._verdict is not None:
            return PROOF_SECONDS  # the verdict is known, and only the proof is missing
        return max(self.left(now), MIN_ASK_SECONDS)

    def left(self, now: int) -> float:
        """Return the seconds until the deadline."""
        return (self._pending.deadline * SECOND - now) / SECOND

    def can_expire(self, patience: Timeouts, now: int) -> bool:
        """Return whether the ledger can record that the node did not answer in time."""
        silent = isinstance(self.latest, NoAnswer) and self._verdict is None
        return silent and self.left(now) < 0 and not self._excuse(patience)

    def read_verdict(self, receipt: Receipt) -> None:
        """Take the verdict from the receipt of a batch.

        An audit that was settled before is missing there: its verdict is looked up on its own.
        """
        self._verdict = self.challenge.verdict_in(receipt) or self._verdict

    def open(self, now: int, openings: Openings) -> None:
        """Open the challenge, or look up its verdict if it is not open any more.

        After a crash the verdict may be on the ledger already.
        """
        pending = self._pending
        try:
            if not self._fresh and pending.opened_at is None:
                self._verdict = self.challenge.find_verdict()
            verdict, self._had_verdict = self._verdict, self._verdict is not None
            timed_out = verdict is not None and verdict.outcome is Outcome.TIMED_OUT
            if verdict is not None and not timed_out:
                return
            if timed_out or self.left(now) < 0:
                self.latest = NoAnswer("the deadline passed", delivered=False)
            elif pending.opened_at is None:
                spent = pending.spent + self.challenge.open(openings)
                self._pending = replace(pending, opened_at=now, spent=spent)
        except (LedgerError, LedgerRefusedError) as error:
            self.latest = error

    def receive(self, reply: Reply) -> None:
        """Note the node's reply."""
        answer = reply.answer
        self._answered = reply.ended if isinstance(answer, Answer) else None
        self._asked = reply.ended
        self._delivered = not isinstance(answer, NoAnswer) or answer.delivered
        pending = self._pending
        self._pending = replace(
            pending,
            sent=reply.sent,
            tries=pending.tries + 1,
            delivered=pending.delivered or self._delivered,
            admitted=answer.admitted
            if self._delivered and isinstance(answer, NoAnswer)
            else pending.admitted,
        )
        self.latest = self._checked(answer) if isinstance(answer, Answer) else answer

    def _checked(self, answer: Answer) -> Answer:
        """Add to an answer what our own check says of it, for a ledger that takes our word."""
        if self._expectation is None:
            return answer
        return replace(answer, passes=self._expectation.passes(answer.proof))

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
        if isinstance(settled, Verdict):
            self._verdict = settled
            return
        if settled.late and self._in_time():
            self._pending, self._late = replace(self._pending, answered=self._answered), answer
        self.latest = settled

    def defer(self, error: LedgerError | LedgerRefusedError) -> None:
        """Note that the ledger did not accept the answer."""
        if isinstance(error, LedgerError) and self._in_time():
            self._pending = replace(self._pending, answered=self._answered)
        self.latest = error

    def _in_time(self) -> bool:
        return self._answered is not None and self.left(self._answered) >= 0

    def _settle(self, answer: Answer) -> Verdict | NoAnswer:
        settled = self.challenge.settle(answer)
        if settled is None:
            self._pending = replace(self._pending, opened_at=None)  # a reorganisation undid it
            return NoAnswer("the ledger does not know the challenge")
        return settled

    def conclude(
        self, patience: Timeouts, now: int, judge_absence: JudgeAbsence
    ) -> AuditResult | Deferred:
        """Return the result of the audit, or when it continues."""
        try:
            if isinstance(self.latest, Answer) and self._verdict is not None:
                return self._with_answer(self._verdict, self.latest)
            if isinstance(self.latest, NoAnswer):
                return self._without_answer(self.latest, patience, now, judge_absence)
        except (LedgerError, LedgerRefusedError) as error:
            self.latest = error
        return self._defer(str(self.latest), patience, now)

    def _with_answer(self, ended: Verdict, answer: Answer) -> AuditResult:
        """Return the result, without a proof that came after the verdict and contradicts it.

        A node may have been repaired since its proof failed, or may lie the second time.
        """
        failed = ended.outcome is Outcome.FAILED
        if self._had_verdict and self._refuted_by(answer) is not failed:
            outcome = Outcome.FAILED if failed else Outcome.UNKNOWN
            return self._result(ended, None, outcome, FAILURE_LOST if failed else PROOF_LOST)
        return self._result(ended, answer, reason=answer.reason)

    def _without_answer(
        self, silence: NoAnswer, patience: Timeouts, now: int, judge_absence: JudgeAbsence
    ) -> AuditResult | Deferred:
        if self.left(now) >= 0 and self._late is None:
            return self._defer(silence.reason, patience, now)
        if excuse := self._excuse(patience):
            return self._excuse_node(excuse)
        try:
            ended = self._verdict or self.challenge.expire()
        except LedgerRefusedError as error:
            if error.reason is Reason.EARLY:  # a chain's clock only advances with blocks
                return self._defer(silence.reason, patience, now)
            if error.reason is not Reason.UNKNOWN:
                raise
            verdict = self.challenge.find_verdict()
            if verdict is None:
                return self._result(None, None, Outcome.UNKNOWN, "the ledger does not know it")
            ended = verdict
        return self._result(ended, None, *self._without_proof(ended, silence, judge_absence))

    def _without_proof(
        self, ended: Verdict, silence: NoAnswer, judge_absence: JudgeAbsence
    ) -> tuple[Outcome, str]:
        """Return the outcome of a verdict without a proof, and its reason."""
        pending = self._pending
        if ended.outcome is Outcome.PASSED:
            return Outcome.UNKNOWN, PROOF_LOST
        if self._subject.inventory.hash != pending.challenge.inventory_hash:
            return Outcome.UNKNOWN, CHANGED
        reason = self._reason(silence.reason) or silence.reason
        if ended.outcome is Outcome.TIMED_OUT and pending.admitted:
            return Outcome.ADMITTED, f"{ADMITTED}: {reason}"
        if ended.outcome is not Outcome.TIMED_OUT or pending.delivered:
            return ended.outcome, reason
        failing = judge_absence(self)
        return (Outcome.TIMED_OUT, f"{failing}; {reason}") if failing else (Outcome.OFFLINE, reason)

    def _reason(self, newest: str) -> str:
        """Return why there is no answer; what the node did says more than that it was away."""
        pending = self._pending
        known = self._asked is None or (pending.delivered and not self._delivered)
        return pending.reason if known or not isinstance(self.latest, NoAnswer) else plain(newest)

    def _excuse(self, patience: Timeouts) -> str:
        """Return why a missing answer is our fault and not the node's, if it is."""
        pending, deadline = self._pending, self._pending.deadline * SECOND
        if pending.answered is not None:
            return WE_WERE_LATE
        if not pending.tries or self._planned(patience) < deadline - patience.last_try:
            return WE_WERE_AWAY
        if pending.tries == 1 and (pending.sent or 0) > deadline:
            return WE_WERE_AWAY  # the clock was set, or this machine slept, before we asked
        if pending.opened_at is None or pending.opened_at > deadline - patience.deadline // 2:
            return OPENED_LATE
        return ""

    def _planned(self, patience: Timeouts) -> int:
        """Return when the next try was planned, after the last one."""
        asked = self._asked
        return self._pending.next_try if asked is None else self.next_try(patience, asked)

    def _excuse_node(self, excuse: str) -> AuditResult:
        """End without blaming the node on the ledger, unless it signed a wrong proof."""
        ended, answer = self._verdict or self.challenge.find_verdict(), self._late
        if ended is not None and ended.outcome is not Outcome.TIMED_OUT:
            failed = ended.outcome is Outcome.FAILED
            outcome = Outcome.FAILED if failed else Outcome.UNKNOWN
            return self._result(ended, None, outcome, FAILURE_LOST if failed else PROOF_LOST)
        if answer is not None and self._refuted_by(answer):
            return self._result(ended, answer, Outcome.FAILED, WRONG_AND_LATE)
        return self._result(ended, answer, Outcome.UNKNOWN, excuse)

    def _refuted_by(self, answer: Answer) -> bool:
        """Return whether the proof is wrong by our own check."""
        challenge, inventory = self._pending.challenge, self._subject.inventory
        if inventory.hash != challenge.inventory_hash:
            return False
        return not expect(self._subject.key, inventory, challenge).passes(answer.proof)

    def _defer(self, reason: str, patience: Timeouts, now: int) -> Deferred:
        at = self.next_try(patience, now)
        planned = at if self.left(now) >= 0 else self._planned(patience)
        pending = replace(self._pending, reason=self._reason(reason), next_try=planned)
        trouble = str(self.latest) if isinstance(self.latest, LedgerError) else None
        return Deferred(at, pending, trouble)

    def next_try(self, patience: Timeouts, now: int) -> int:
        """Return when the node is asked again, or when the deadline has passed."""
        deadline = self._pending.deadline * SECOND
        pause = min(patience.first_pause << min(self._pending.tries, 20), patience.longest_pause)
        last, over = deadline - patience.last_try, deadline + SECOND
        if now < last:
            return min(now + pause, last)
        return over if now < over else now + pause

    def _result(
        self,
        ended: Verdict | None,
        answer: Answer | None,
        outcome: Outcome | None = None,
        reason: str = "",
    ) -> AuditResult:
        domain, subject, pending = self.challenge.ledger.domain, self._subject, self._pending
        if outcome is None:
            if ended is None:
                raise StorageError("an audit ended without an outcome")
            outcome = ended.outcome
        verdict = None if ended is None else ended.record
        answered = None if answer is None else self._answered
        return AuditResult(
            name=subject.name,
            outcome=outcome,
            reason=plain(reason),
            due=pending.due,
            began=pending.opened_at or pending.due,
            ended=answered or pending.sent or pending.due,
            units=pending.challenge.blocks,
            checked=pending.challenge.samples,
            gas=pending.spent + (verdict.gas if verdict else 0),
            read_bytes=0 if answer is None else answer.read_bytes,
            requests=0 if answer is None else answer.requests,
            detail=ProofDetail(
                holding=leaf.Holding(
                    domain.chain,
                    domain.contract,
                    self.challenge.holding_id,
                    subject.key.public.id,
                    subject.address,
                ),
                challenge=pending.challenge,
                target=pending.target,
                opening=leaf.Opening(self.challenge.name, pending.deadline * SECOND, pending.batch),
                sent=pending.sent,
                answered=answered,
                proof=None if answer is None else answer.proof,
                signature=None if answer is None else answer.signature,
                verdict=verdict,
                spent=pending.spent,
                objects=() if answer is None else answer.objects,
            ),
        )
