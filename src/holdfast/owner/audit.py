"""One audit of one holding, in steps: draw and target, open, ask, settle, expire.

`run_audit` takes them all in order. A challenge is written down before the ledger hears of it, so
that one which a crash left open is found again and brought to its verdict.
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

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 4.0  # seconds between two attempts
SHORTEST_ASK_SECONDS = 0.1
BROUGHT_LATE = (
    "its proof came before the deadline, and we brought it to the ledger after it: "
    "that is no fault of the node"
)


@dataclass(frozen=True)
class Watch:
    """Time, and a way to let it pass."""

    now: Callable[[], float]
    pause: Callable[[float], None]


REAL_TIME = Watch(time.time, time.sleep)


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


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"


OUTCOMES = {Passed: Outcome.PASSED, Failed: Outcome.FAILED, TimedOut: Outcome.TIMEOUT}


@dataclass(frozen=True)
class BatchPosition:
    """Where a challenge stands among those that the ledger is told of at once."""

    batch: Batch
    index: int


@dataclass(frozen=True)
class Question:
    """A challenge over the whole holding, as the ledger is told of it: by itself or in a batch.

    `holding` is what the ledger knows the holding by, which has the owner in it.
    """

    holding: int
    challenge: Challenge
    target: bytes
    deadline: int
    place: BatchPosition | None = None

    @property
    def opening(self) -> Opening:
        return Opening(self.target, self.deadline, self.place.batch.seed if self.place else None)

    @property
    def name(self) -> bytes:
        """Its name on the ledger."""
        if self.place:
            return self.place.batch.challenge_id(self.place.index)
        return self.opening.name(self.holding, self.challenge)

    @property
    def row(self) -> OpenAudit:
        return OpenAudit(self.challenge.encode(), self.target, self.deadline)

    @classmethod
    def of(cls, holding: int, row: OpenAudit) -> "Question":
        return cls(holding, Challenge.decode(row.challenge), row.target, row.deadline)


@dataclass(frozen=True)
class NoAnswer:
    """No answer that counts, and why: of a failing proof it tells nothing.

    `delivered` says whether the node took the challenge: then the silence is the node's. `late`
    says that an answer came and the ledger got it after the deadline.
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
    outcome: Outcome
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
    challenge, place = question.challenge, question.place
    try:
        if place:
            return ledger.open_many(place.batch).gas // len(place.batch.words)
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
    """Bring the answer to the ledger, where it may come too late to count."""
    try:
        if place := question.place:
            receipt = ledger.settle(place.batch, {place.index: answer})
        else:
            receipt = ledger.submit(question.holding, question.name, answer)
    except LedgerRefusedError as error:
        if error.reason in {Reason.LATE, Reason.MALFORMED, Reason.WRONG}:
            return NoAnswer(str(error), late=error.reason is Reason.LATE)
        raise
    return verdict_in(receipt, holding, question)


def expire(ledger: Ledger, holding: Subject, question: Question, silence: NoAnswer) -> Finding:
    """Have the ledger say that the deadline has passed."""
    if place := question.place:
        receipt = ledger.expire_many(place.batch, [place.index])
    else:
        receipt = ledger.expire(question.holding, question.name)
    return replace(verdict_in(receipt, holding, question), reason=silence.reason)


def run_audit(
    ledger: Ledger,
    holding: Holding,
    samples: int,
    *,
    patience: int,
    watch: Watch = REAL_TIME,
) -> Finding:
    """Audit the holding the whole way; the node has `patience` seconds to answer."""
    if holding.catalogue.intents(holding.name):
        with suppress(NodeError):  # nobody to ask yet: the audit will tell
            holding.reconcile()
    question = draw(ledger, holding, samples, watch.now(), patience)
    holding.catalogue.begin_audit(holding.name, question.row)
    open_on(ledger, holding, question)
    finding = _awaited(ledger, holding, question, watch)
    holding.catalogue.end_audit(holding.name, question.row, finding.block)
    return finding


def resume(ledger: Ledger, holding: Holding, watch: Watch = REAL_TIME) -> list[Finding]:
    """Bring the audits that a crash left open to their verdict; those never opened are dropped."""
    findings = []
    for row in holding.catalogue.audits(holding.name):
        question = Question.of(id_on(ledger, holding), row)
        finding = _resumed(ledger, holding, question, watch)
        holding.catalogue.end_audit(holding.name, row, finding.block if finding else None)
        if finding:
            findings.append(finding)
    return findings


def verdict_on(
    ledger: Ledger, holding: Subject, question: Question, since: int = 0
) -> Finding | None:
    """Return what the ledger has said of a challenge since that block, if it has."""
    for receipt in ledger.receipts(since):
        try:
            return verdict_in(receipt, holding, question)
        except LookupError:
            continue
    return None


def _resumed(ledger: Ledger, holding: Holding, question: Question, watch: Watch) -> Finding | None:
    if found := verdict_on(ledger, holding, question, holding.record.block):
        return found
    interrupted = NoAnswer("the audit was interrupted on the owner's side")
    try:
        if watch.now() <= question.deadline:
            open_on(ledger, holding, question)
            return _awaited(ledger, holding, question, watch)
        return expire(ledger, holding, question, interrupted)
    except LedgerRefusedError as error:
        if error.reason in {Reason.UNKNOWN, Reason.LATE, Reason.USED}:
            return None
        raise


def _awaited(ledger: Ledger, holding: Holding, question: Question, watch: Watch) -> Finding:
    """Return the verdict, to which anyone may have brought the challenge before us."""
    try:
        return _brought_to_verdict(ledger, holding, question, watch)
    except LedgerRefusedError as error:
        if error.reason is Reason.UNKNOWN:
            verdict = verdict_on(ledger, holding, question, holding.record.block)
            if verdict is not None:
                return verdict
        raise


def _brought_to_verdict(
    ledger: Ledger, holding: Holding, question: Question, watch: Watch
) -> Finding:
    """Ask until there is an answer or the deadline has passed, and bring it to the ledger."""
    silence = NoAnswer("there was no time to ask the node", delivered=False)
    pause = FIRST_PAUSE
    while (left := question.deadline - watch.now()) >= 0:
        told: Finding | Answer | NoAnswer
        told = ask(ledger, holding, question, max(left, SHORTEST_ASK_SECONDS))
        if isinstance(told, Answer):
            in_time = watch.now() <= question.deadline
            told = settle(ledger, holding, question, told)
            if isinstance(told, NoAnswer) and told.late and in_time:
                silence = NoAnswer(BROUGHT_LATE)
                break
        if isinstance(told, Finding):
            return told
        if told.delivered or not silence.delivered:
            silence = told
        watch.pause(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    while True:
        try:
            return expire(ledger, holding, question, silence)
        except LedgerRefusedError as error:
            if error.reason is not Reason.EARLY:  # a chain's clock stands still between blocks
                raise
            watch.pause(FIRST_PAUSE)


def verdict_in(receipt: Receipt, holding: Subject, question: Question) -> Finding:
    """Return what the ledger says of this challenge, LookupError if it says nothing.

    Anyone may write to a ledger: an event counts only for the holding and the name that it bears.
    """
    asked = (question.holding, question.name)
    verdicts = [event for event in receipt.events if isinstance(event, (Passed, Failed, TimedOut))]
    for event in verdicts:
        if (event.holding, event.challenge) == asked:
            return Finding(
                holding.name,
                OUTCOMES[type(event)],
                question.challenge,
                receipt.transaction,
                receipt.block,
                receipt.gas // len(verdicts),
            )
    raise LookupError("the receipt has no verdict on this challenge")
