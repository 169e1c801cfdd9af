"""One audit of one holding in steps, with real parts, a given clock and no schedule."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from holdfast.control.audits.lanes import as_reply, ask_node
from holdfast.control.audits.ledger_challenge import LedgerChallenge
from holdfast.control.audits.pending import PendingAudit
from holdfast.control.audits.running_audit import Reply, RunningAudit
from holdfast.control.audits.types import AuditResult, Deferred, NoAnswer, Subject
from holdfast.control.scheduling.claims import Claim
from holdfast.control.settings.models import Timeouts
from holdfast.durations import SECOND
from holdfast.ledger import check
from holdfast.ledger.interface import Answer, Batch, Entry, Ledger, batch_seed, fresh_seed
from holdfast.ledger.interface import holding_id as ledger_id
from holdfast.pdp import Challenge, Expectation, draw_challenge, expect
from holdfast.pdp.challenge import SEED_BYTES

MAX_TRIES = 200


@dataclass(frozen=True)
class Clock:
    """The time in seconds since 1970, and a way to wait."""

    seconds: Callable[[], float]
    sleep: Callable[[float], object]

    def __call__(self) -> int:
        """Return the milliseconds since 1970."""
        return round(SECOND * self.seconds())


REAL_TIME = Clock(time.time, time.sleep)


@dataclass
class SingleAudit:
    """An audit of a holding: its challenge, and how far it has come."""

    ledger: Ledger
    holding: Subject
    clock: Clock
    pending: PendingAudit
    patience: Timeouts
    batch: Batch | None = None
    expectation: Expectation | None = None  # kept only in memory
    fresh: bool = True
    running: RunningAudit = field(init=False)

    def __post_init__(self) -> None:
        self.running = self._run()

    def _run(self) -> RunningAudit:
        challenge = LedgerChallenge(self.holding, self.ledger, self.pending, self.batch)
        return RunningAudit(
            claim_of(self.holding),
            self.holding,
            challenge,
            self.pending,
            fresh=self.fresh,
            expectation=self.expectation,
        )

    @property
    def name(self) -> bytes:
        """The challenge's name on the ledger."""
        return self.running.challenge.name

    @property
    def holding_id(self) -> int:
        """The holding's id on the ledger."""
        return self.running.challenge.holding_id

    @property
    def challenge(self) -> Challenge:
        return self.pending.challenge

    @property
    def target_address(self) -> bytes:
        return self.pending.target_address

    def open(self) -> None:
        """Open the challenge on the ledger."""
        self.running.open(self.clock(), {})

    def ask(self) -> Answer | NoAnswer:
        """Ask the node once, and note its reply."""
        sent = self.clock()
        (answer,) = ask_node([self.running], self.running.seconds(sent))
        reply = Reply(as_reply(answer), sent, self.clock())
        self.running.receive(reply)
        return reply.answer

    def settle(self) -> None:
        self.running.settle()

    def conclude(self) -> AuditResult | Deferred:
        return self.running.conclude(self.patience, self.clock(), lambda _audit: "")

    def answer(self) -> Answer:
        """Open the challenge and return the node's answer, which must be one."""
        self.open()
        answer = self.ask()
        assert isinstance(answer, Answer), answer
        return answer

    def try_once(self) -> AuditResult | Deferred:
        """Do what a worker does for an audit in one go."""
        self.open()
        if self.running.latest is None:
            self.ask()
        self.settle()
        return self.conclude()

    def resume(self, pending: PendingAudit | None = None) -> "SingleAudit":
        """Return the audit as another worker finds it: with what was saved and no more."""
        saved = PendingAudit.decode((pending or self.pending).encode())
        return replace(self, pending=saved, expectation=None, fresh=False)

    def finish(self) -> AuditResult:
        """Try until the audit has its result; wait as long as each try says."""
        audit = self
        for _ in range(MAX_TRIES):
            result = audit.try_once()
            if isinstance(result, AuditResult):
                return result
            assert isinstance(result.pending, PendingAudit)
            audit = audit.resume(result.pending)
            self.clock.sleep(max(result.at - self.clock(), 1) / SECOND)
        raise AssertionError("the audit does not end")


def draw(
    ledger: Ledger,
    holding: Subject,
    samples: int,
    clock: Clock = REAL_TIME,
    *,
    deadline_seconds: int,
    seed: bytes | None = None,
    batch: bytes | None = None,
) -> SingleAudit:
    """Draw a challenge; with `batch`, a seed, it is the only one in a batch."""
    number = ledger_id(ledger.sender, holding.number)
    if batch is not None:
        seed = batch_seed(batch, number)
    elif seed is None:
        seed = fresh_seed(ledger, holding.number, clock(), secrets.token_bytes(SEED_BYTES))
    inventory = holding.inventory
    challenge = draw_challenge(inventory, samples, seed=seed)
    expectation = expect(holding.key, inventory, challenge)
    target = expectation.target()
    address = check.target_address(target)
    deadline = clock() // SECOND + deadline_seconds
    pending = PendingAudit(
        clock(), challenge, target.point, address, deadline, batch, since=ledger.height()
    )
    opened_in = None
    if batch is not None:
        word = Entry(address, holding.number, samples, inventory.hash[:4]).encode()
        opened_in = Batch(ledger.sender, batch, deadline, (word,))
    patience = Timeouts(
        deadline=deadline_seconds * SECOND, first_pause=SECOND // 4, longest_pause=4 * SECOND
    )
    return SingleAudit(ledger, holding, clock, pending, patience, opened_in, expectation)


def run_audit(
    ledger: Ledger,
    holding: Subject,
    samples: int,
    clock: Clock = REAL_TIME,
    *,
    deadline_seconds: int,
) -> AuditResult:
    """Audit the holding the whole way."""
    audit = draw(ledger, holding, samples, clock, deadline_seconds=deadline_seconds)
    return audit.finish()


def claim_of(holding: Subject) -> Claim:
    """Return a claim of the holding as if it were on a schedule."""
    return Claim(
        id=1,
        name=holding.name,
        token=1,
        blocks=holding.inventory.blocks,
        due=0,
        number=0,
        audited=0,
        history=b"",
        observed=0,
        news=False,
        version="",
        memory=b"",
        decided=0,
        observation=b"",
        chosen=0,
        interval=1,
        ratio=1.0,
        overrides=0,
        flight=None,
    )
