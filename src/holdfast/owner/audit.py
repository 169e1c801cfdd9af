"""One audit of one holding, in steps: draw and target, open, ask, settle, expire.

`run_audit` takes them in order. A challenge is saved before it is opened on the ledger, so that one
which a crash left open can be brought to its verdict.
"""

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from holdfast.errors import NodeError, UnreachableError
from holdfast.ledger import check
from holdfast.ledger.interface import (
    Answer,
    Batch,
    Failed,
    Ledger,
    LedgerRefusedError,
    Opening,
    Passed,
    Reason,
    Receipt,
    TimedOut,
    fresh_seed,
    holding_id,
)
from holdfast.node.proof_messages import AnswerTo
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner.catalogue import OpenAudit
from holdfast.owner.holding import Holding
from holdfast.pdp import Challenge, Inventory, SecretKey, draw_challenge, target_of
from holdfast.pdp.challenge import SEED_BYTES

RETRY_DELAY_SECONDS, MAX_RETRY_DELAY_SECONDS = 0.25, 4.0
MIN_ASK_SECONDS = 0.1
SUBMITTED_LATE = (
    "its proof came before the deadline, and we submitted it after the deadline: "
    "that is not the node's fault"
)


@dataclass(frozen=True)
class Clock:
    """The time, and a way to wait."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


REAL_TIME = Clock(time.time, time.sleep)


class Prover(Protocol):
    def prove(
        self,
        key_id: bytes,
        challenge: Challenge,
        to: AnswerTo | None = None,
        *,
        seconds: float | None = None,
    ) -> Answer: ...


class Subject(Protocol):
    """What an audit needs to know of a holding."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> SecretKey: ...
    @property
    def address(self) -> bytes: ...
    @property
    def number(self) -> int: ...
    @property
    def inventory(self) -> Inventory: ...
    @property
    def node(self) -> Prover: ...


class LedgerVerdict(StrEnum):
    """What the ledger says of a challenge."""

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"


VERDICTS = {
    Passed: LedgerVerdict.PASSED,
    Failed: LedgerVerdict.FAILED,
    TimedOut: LedgerVerdict.TIMEOUT,
}


@dataclass(frozen=True)
class BatchPosition:
    """A challenge's position in a batch that is opened in one transaction."""

    batch: Batch
    index: int


@dataclass(frozen=True)
class Question:
    """A challenge over the whole holding as it is opened on the ledger, alone or in a batch.

    `holding` is the holding's id on the ledger, which contains the owner's address.
    """

    holding: int
    challenge: Challenge
    target: bytes
    deadline: int
    position: BatchPosition | None = None

    @property
    def opening(self) -> Opening:
        return Opening(
            self.target, self.deadline, self.position.batch.seed if self.position else None
        )

    @property
    def name(self) -> bytes:
        """Its name on the ledger."""
        if self.position:
            return self.position.batch.challenge_id(self.position.index)
        return self.opening.name(self.holding, self.challenge)

    @property
    def row(self) -> OpenAudit:
        return OpenAudit(self.challenge.encode(), self.target, self.deadline)

    @classmethod
    def of(cls, holding: int, row: OpenAudit) -> "Question":
        return cls(holding, Challenge.decode(row.challenge), row.target, row.deadline)


@dataclass(frozen=True)
class NoAnswer:
    """No answer that counts, and why. It says nothing about a failing proof.

    `delivered` says whether the node received the challenge: if so, silence is the node's
    fault. `late` says that an answer reached the ledger after the deadline.
    """

    reason: str
    delivered: bool = True
    late: bool = False


@dataclass(frozen=True)
class Finding:
    """The verdict on one audit; `transaction` names the ledger's record of it.

    The gas is its share of what the transaction cost.
    """

    holding: str
    outcome: LedgerVerdict
    challenge: Challenge
    transaction: bytes
    block: int
    gas: int
    reason: str | None = None


def sample_cap(holding: Holding) -> int | None:
    """Return how many blocks the node takes in one challenge, if it can be asked."""
    try:
        return holding.node.facts().limits.samples
    except NodeError:
        return None


def id_on(ledger: Ledger, holding: Subject) -> int:
    return holding_id(ledger.sender, holding.number)


def draw(ledger: Ledger, holding: Subject, samples: int, now: float, patience: int) -> Question:
    """Draw a fresh challenge and compute its target, which only the owner can."""
    inventory = holding.inventory
    seed = fresh_seed(ledger, holding.number, int(1000 * now), secrets.token_bytes(SEED_BYTES))
    challenge = draw_challenge(inventory, samples, seed=seed)
    target = check.target_address(target_of(holding.key, inventory, challenge))
    return Question(id_on(ledger, holding), challenge, target, int(now) + patience)


def open_on(ledger: Ledger, holding: Subject, question: Question) -> int:
    """Open the challenge on the ledger, unless it is open already; return its share of the gas.

    In a batch the others are opened with it.
    """
    challenge, position = question.challenge, question.position
    try:
        if position:
            return ledger.open_many(position.batch).gas // len(position.batch.words)
        return ledger.open(holding.number, challenge, question.target, question.deadline).gas
    except LedgerRefusedError as error:
        if error.reason is not Reason.OPEN:
            raise
    return 0


def ask(
    ledger: Ledger, holding: Subject, question: Question, seconds: float | None = None
) -> Answer | NoAnswer:
    """Ask the node once for its proof, signed for this challenge on this ledger.

    The node has that many seconds.
    """
    to = AnswerTo.of(ledger.domain, question.holding, question.opening)
    try:
        return holding.node.prove(holding.key.public.id, question.challenge, to, seconds=seconds)
    except NodeRefusedError as error:
        if error.code is Code.INVENTORY:
            raise
        return NoAnswer(f"the node refuses to prove it: {error}")
    except UnreachableError as error:
        return NoAnswer(f"{error}; that is not a failed proof", delivered=False)
    except NodeError as error:
        return NoAnswer(str(error))


def settle(
    ledger: Ledger, holding: Subject, question: Question, answer: Answer
) -> Finding | NoAnswer:
    """Submit the answer to the ledger, where it may be too late to count."""
    try:
        if position := question.position:
            receipt = ledger.settle(position.batch, {position.index: answer})
        else:
            receipt = ledger.submit(question.holding, question.name, answer)
    except LedgerRefusedError as error:
        if error.reason in {Reason.LATE, Reason.MALFORMED, Reason.WRONG}:
            return NoAnswer(str(error), late=error.reason is Reason.LATE)
        raise
    return verdict_in(receipt, holding, question)


def expire(ledger: Ledger, holding: Subject, question: Question, silence: NoAnswer) -> Finding:
    """Have the ledger record that the deadline has passed."""
    if position := question.position:
        receipt = ledger.expire_many(position.batch, [position.index])
    else:
        receipt = ledger.expire(question.holding, question.name)
    return replace(verdict_in(receipt, holding, question), reason=silence.reason)


def run_audit(
    ledger: Ledger,
    holding: Holding,
    samples: int,
    *,
    patience: int,
    clock: Clock = REAL_TIME,
) -> Finding:
    """Audit the holding the whole way; the node has `patience` seconds to answer."""
    if holding.catalogue.intents(holding.name):
        with suppress(NodeError):  # the audit will show whether the node answers
            holding.reconcile()
    question = draw(ledger, holding, samples, clock.now(), patience)
    holding.catalogue.begin_audit(holding.name, question.row)
    open_on(ledger, holding, question)
    finding = _await_verdict(ledger, holding, question, clock)
    holding.catalogue.end_audit(holding.name, question.row, finding.block)
    return finding


def resume(ledger: Ledger, holding: Holding, clock: Clock = REAL_TIME) -> list[Finding]:
    """Bring the audits that a crash left open to their verdict; those never opened are dropped."""
    findings = []
    for row in holding.catalogue.audits(holding.name):
        question = Question.of(id_on(ledger, holding), row)
        finding = _resume_audit(ledger, holding, question, clock)
        holding.catalogue.end_audit(holding.name, row, finding.block if finding else None)
        if finding:
            findings.append(finding)
    return findings


def verdict_on(
    ledger: Ledger, holding: Subject, question: Question, since: int = 0
) -> Finding | None:
    """Return the ledger's verdict on a challenge since that block, if there is one."""
    for receipt in ledger.receipts(since):
        try:
            return verdict_in(receipt, holding, question)
        except LookupError:
            continue
    return None


def _resume_audit(
    ledger: Ledger, holding: Holding, question: Question, clock: Clock
) -> Finding | None:
    if finding := verdict_on(ledger, holding, question, holding.record.block):
        return finding
    interrupted = NoAnswer("the audit was interrupted on the owner's side")
    try:
        if clock.now() <= question.deadline:
            open_on(ledger, holding, question)
            return _await_verdict(ledger, holding, question, clock)
        return expire(ledger, holding, question, interrupted)
    except LedgerRefusedError as error:
        if error.reason in {Reason.UNKNOWN, Reason.LATE, Reason.USED}:
            return None
        raise


def _await_verdict(ledger: Ledger, holding: Holding, question: Question, clock: Clock) -> Finding:
    """Return the verdict, which anyone may have caused before us."""
    try:
        return _ask_until_verdict(ledger, holding, question, clock)
    except LedgerRefusedError as error:
        if error.reason is Reason.UNKNOWN:
            verdict = verdict_on(ledger, holding, question, holding.record.block)
            if verdict is not None:
                return verdict
        raise


def _ask_until_verdict(
    ledger: Ledger, holding: Holding, question: Question, clock: Clock
) -> Finding:
    """Ask until there is an answer or the deadline has passed, and submit it to the ledger."""
    silence = NoAnswer("there was no time to ask the node", delivered=False)
    delay = RETRY_DELAY_SECONDS
    while (left := question.deadline - clock.now()) >= 0:
        result: Finding | Answer | NoAnswer
        result = ask(ledger, holding, question, max(left, MIN_ASK_SECONDS))
        if isinstance(result, Answer):
            in_time = clock.now() <= question.deadline
            result = settle(ledger, holding, question, result)
            if isinstance(result, NoAnswer) and result.late and in_time:
                silence = NoAnswer(SUBMITTED_LATE)
                break
        if isinstance(result, Finding):
            return result
        if result.delivered or not silence.delivered:
            silence = result
        clock.sleep(delay)
        delay = min(2 * delay, MAX_RETRY_DELAY_SECONDS)
    while True:
        try:
            return expire(ledger, holding, question, silence)
        except LedgerRefusedError as error:
            if error.reason is not Reason.EARLY:  # a chain's clock stands still between blocks
                raise
            clock.sleep(RETRY_DELAY_SECONDS)


def verdict_in(receipt: Receipt, holding: Subject, question: Question) -> Finding:
    """Return the verdict on this challenge in a receipt; LookupError if there is none.

    Anyone may write to a ledger: an event counts only for the holding and challenge that it names.
    """
    asked = (question.holding, question.name)
    verdicts = [event for event in receipt.events if isinstance(event, (Passed, Failed, TimedOut))]
    for event in verdicts:
        if (event.holding, event.challenge) == asked:
            return Finding(
                holding.name,
                VERDICTS[type(event)],
                question.challenge,
                receipt.transaction,
                receipt.block,
                receipt.gas // len(verdicts),
            )
    raise LookupError("the receipt has no verdict on this challenge")
