"""Runs audits: draws challenges, opens them on the ledger, asks nodes and settles the answers.

Audits that are due together go to the ledger in one batch, which is cheaper, or one by one. Every
node has threads of its own, and answers are settled soon after they arrive: a node that hangs
delays no other node's answer. A node that can't be reached is asked again until the deadline. Only
then does the ledger record a time-out, and the outcome says whether the node took the challenge.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from holdfast.control.audits.contacts import Contacts
from holdfast.control.audits.pending import PendingAudit
from holdfast.control.audits.running_audit import Reply, RunningAudit
from holdfast.control.audits.settlement import expire_audits, settle_answers
from holdfast.control.audits.types import AuditResult, Deferred, PreparedAudit, PreparedBatch
from holdfast.control.scheduling.guardrails import SECOND
from holdfast.control.scheduling.schedule import Claim
from holdfast.control.settings.models import SettlementMode, Timeouts
from holdfast.errors import LedgerError
from holdfast.ledger import check
from holdfast.ledger.interface import MAX_BATCH, Batch, Entry, Ledger, batch_seed, fresh_seed
from holdfast.model.detection import samples
from holdfast.owner.audit import NoAnswer, Subject, id_on
from holdfast.pdp import draw_challenge, target_of

QUIET_SECONDS = 10.0  # without another answer, after which the received ones are settled
GRACE_SECONDS = 1.0  # beyond the deadline, until a thread that still asks is abandoned
NEVER_CONNECTED = "can't reach the node: no connection was made before the deadline"

Replies = SimpleQueue[tuple[RunningAudit, Reply | BaseException]]


class Fleet(Protocol):
    """Every holding by its name, and the ledger that it is registered on."""

    def subject(self, name: str) -> Subject: ...
    def ledger(self, name: str) -> Ledger: ...
    def gas_price(self) -> int: ...


class AuditRunner:
    def __init__(
        self,
        fleet: Fleet,
        batch: Callable[[bytes], Batch],
        contacts: Contacts,
        *,
        sample_cap: int,
        patience: Timeouts,
        clock: Callable[[], int],
        seed: Callable[[], bytes],
        settlement: SettlementMode = SettlementMode.BATCH,
    ) -> None:
        """Make a runner; `batch` returns a saved batch by its seed."""
        self._fleet, self._batch, self._contacts = fleet, batch, contacts
        self._cap, self._patience = sample_cap, patience
        self._clock, self._seed = clock, seed
        self._batch_size = MAX_BATCH if settlement is SettlementMode.BATCH else 1

    def gas_price(self) -> int:
        return self._fleet.gas_price()

    def prepare(self, claims: Sequence[Claim]) -> PreparedBatch:
        """Draw challenges over the current inventories, and compute their targets."""
        deadline = (self._clock() + self._patience.deadline) // SECOND
        by_ledger: dict[Ledger, list[Claim]] = {}
        for claim in claims:
            by_ledger.setdefault(self._fleet.ledger(claim.name), []).append(claim)
        prepared: dict[int, PreparedAudit] = {}
        batches = []
        for ledger, due in by_ledger.items():
            since = _height(ledger)
            for first in range(0, len(due), self._batch_size):
                members = due[first : first + self._batch_size]
                seed = self._seed() if len(members) > 1 else None
                entries = []
                for claim in members:
                    subject = self._fleet.subject(claim.name)
                    if seed:
                        own = batch_seed(seed, id_on(ledger, subject))
                    else:
                        own = fresh_seed(ledger, subject.number, self._clock(), self._seed())
                    flight, capped = self._draw(claim, subject, own, deadline)
                    entries.append((_entry(subject, flight).encode(), claim.id, flight, capped))
                entries.sort(key=itemgetter(0))  # as the ledger requires
                for index, (_, claim_id, flight, capped) in enumerate(entries):
                    placed = replace(flight, batch=seed, index=index, since=since)
                    prepared[claim_id] = PreparedAudit(placed.encode(), capped)
                if seed:
                    words = tuple(word for word, *_ in entries)
                    batches.append(Batch(ledger.sender, seed, deadline, words))
        return PreparedBatch([prepared[claim.id] for claim in claims], batches)

    def _draw(
        self, claim: Claim, subject: Subject, seed: bytes, deadline: int
    ) -> tuple[PendingAudit, bool]:
        inventory = subject.inventory
        wanted = int(samples(claim.ratio, inventory.blocks, inventory.blocks))
        challenge = draw_challenge(inventory, min(wanted, self._cap), seed=seed)
        target = target_of(subject.key, inventory, challenge)
        return PendingAudit(claim.due, challenge, target, deadline), wanted > self._cap

    def carry_out(self, audits: Sequence[tuple[Claim, bytes]]) -> list[AuditResult | Deferred]:
        """Carry out audits in parallel, with one call to the ledger at a time."""
        flights = [PendingAudit.decode(flight) for _, flight in audits]
        seeds = dict.fromkeys(flight.batch for flight in flights if flight.batch)
        batches = {seed: self._batch(seed) for seed in seeds}
        running = []
        for (claim, _), flight in zip(audits, flights, strict=True):
            subject, ledger = self._fleet.subject(claim.name), self._fleet.ledger(claim.name)
            batch = batches[flight.batch] if flight.batch else None
            new = claim.flight is None
            running.append(RunningAudit(subject, ledger, flight, batch, anew=new))
        opened: dict[bytes, int | Exception] = {}
        for audit in running:
            audit.open(self._clock(), opened)
        asked = [audit for audit in running if audit.latest is None]
        self._choose_compared(asked)
        self._ask_and_settle(asked)
        self._record_contacts(asked)
        expire_audits(running, self._patience, self._clock())
        return [
            audit.conclude(self._patience, self._clock(), self._judge_absence) for audit in running
        ]

    def _choose_compared(self, asked: Sequence[RunningAudit]) -> None:
        """Choose the challenges that are compared with probes: one per node at a time."""
        first = {audit.node: audit for audit in reversed(asked) if not audit.flight.tries}
        for node in self._contacts.present_nodes(first):
            first[node].compare_with_probes()

    def _ask_and_settle(self, asked: Sequence[RunningAudit]) -> None:
        """Ask nodes in parallel, and settle answers whenever no more arrive for a while.

        While a node hangs, others that gave no answer are asked again when they are due: a slow
        node excuses no other.
        """
        replies: Replies = SimpleQueue()
        _start_asking(asked, self._patience.at_once, self._clock, replies)
        first, again = set(asked), set[RunningAudit]()  # first tries of this run, and later ones
        unsettled, retries = _Unsettled(self._clock), _Retries(self._clock, self._patience)
        longest = max((audit.seconds(self._clock()) for audit in asked), default=0.0)
        over = time.monotonic() + longest + GRACE_SECONDS
        while (first or again) and time.monotonic() < over:
            next_event = min(over, unsettled.until, retries.until if first else math.inf)
            left = next_event - time.monotonic()
            try:
                audit, reply = replies.get(timeout=max(left, 0.0))
            except Empty:
                if first:
                    due = retries.pop_due()
                    again.update(due)
                    _start_asking(due, self._patience.at_once, self._clock, replies)
                if unsettled.until <= time.monotonic():
                    unsettled.settle()
                continue
            if isinstance(reply, BaseException):
                raise reply
            audit.receive(reply)
            unsettled.add(audit)
            retries.add(audit)
            first.discard(audit)
            again.discard(audit)
        unsettled.settle()
        no_answer = NoAnswer(NEVER_CONNECTED, delivered=False)
        for audit in (*first, *again):
            audit.receive(Reply(no_answer, now := self._clock(), now))

    def _record_contacts(self, asked: Sequence[RunningAudit]) -> None:
        """Record which nodes were present."""
        reached: dict[bytes, bool] = {}
        for audit in asked:
            reached[audit.node] = reached.get(audit.node, False) or audit.reached
        present = [audit.node for audit in asked if audit.pop_compared()]
        if reached:
            self._contacts.record_challenges(reached, present, self._clock())

    def _judge_absence(self, audit: RunningAudit) -> str:
        flight = audit.flight
        return self._contacts.judge_absence(
            audit.node, flight.opened_at or 0, flight.sent or 0, counted=flight.counted
        )


class _Unsettled:
    """Answers that are not settled yet: they wait a little for more."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._answers: list[RunningAudit] = []
        self._latest = self.until = math.inf  # by the monotonic clock

    def add(self, audit: RunningAudit) -> None:
        if not audit.answer:
            return
        left, now = max(audit.left(self._clock()), 0.0), time.monotonic()
        self._answers.append(audit)
        self._latest = min(self._latest, now + left / 2)
        self.until = min(self._latest, now + min(QUIET_SECONDS, left / 4))

    def settle(self) -> None:
        settle_answers(self._answers)
        self._answers = []
        self._latest = self.until = math.inf


class _Retries:
    """Audits without an answer, by when their nodes are asked again."""

    def __init__(self, clock: Callable[[], int], patience: Timeouts) -> None:
        self._clock, self._patience = clock, patience
        self._due: dict[RunningAudit, float] = {}  # by the monotonic clock

    @property
    def until(self) -> float:
        return min(self._due.values(), default=math.inf)

    def add(self, audit: RunningAudit) -> None:
        now = self._clock()
        if isinstance(audit.latest, NoAnswer) and audit.left(now) > 0:
            wait = max(audit.next_try(self._patience, now) - now, 0) / SECOND
            self._due[audit] = time.monotonic() + wait

    def pop_due(self) -> list[RunningAudit]:
        now = time.monotonic()
        due = [audit for audit, moment in self._due.items() if moment <= now]
        for audit in due:
            del self._due[audit]
        return [audit for audit in due if audit.left(self._clock()) > 0]


def _start_asking(
    asked: Sequence[RunningAudit], at_once: int, clock: Callable[[], int], replies: Replies
) -> None:
    """Ask every node in threads of its own, at most `at_once`."""
    lanes: dict[bytes, deque[RunningAudit]] = {}
    for audit in asked:
        lanes.setdefault(audit.node, deque()).append(audit)
    for lane in lanes.values():
        threads = min(at_once, len(lane))
        for _ in range(threads):
            # A daemon: a slow name lookup delays no exit.
            Thread(target=_ask_lane, args=(lane, threads, clock, replies), daemon=True).start()


def _ask_lane(
    lane: deque[RunningAudit], threads: int, clock: Callable[[], int], replies: Replies
) -> None:
    while True:
        try:
            audit = lane.popleft()
        except IndexError:
            return
        rounds = 1 + math.ceil(len(lane) / threads)  # that share the remaining time
        try:
            replies.put((audit, audit.ask(clock, 1 / rounds)))
        except BaseException as error:  # noqa: BLE001 - raised where the answers are awaited
            replies.put((audit, error))
            return


def _entry(subject: Subject, flight: PendingAudit) -> Entry:
    challenge, target = flight.challenge, check.target_address(flight.target)
    return Entry(target, subject.number, challenge.samples, challenge.inventory_hash[:4])


def _height(ledger: Ledger) -> int:
    try:
        return ledger.height()
    except LedgerError:
        return 0
