"""Runs audits: draws challenges, opens them on the ledger, asks nodes and settles the answers.

Audits that are due together go to the ledger in one batch, which is cheaper, or one by one. Every
node has a lane of its own, and answers are settled as they come: a node that hangs delays no other
node's answer. A node that can't be reached is asked again until the deadline. Only then does the
ledger record a time-out, and the outcome says whether the node took the challenge.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import itemgetter
from queue import Empty
from typing import NamedTuple

from holdfast.control.audits.contacts import Contacts
from holdfast.control.audits.lanes import Lanes, ThreadLanes, uptime
from holdfast.control.audits.ledger_challenge import LedgerChallenge, Openings
from holdfast.control.audits.pending import PendingAudit
from holdfast.control.audits.running_audit import Reply, RunningAudit
from holdfast.control.audits.settlement import Settlement, expire_audits
from holdfast.control.audits.types import (
    AuditResult,
    Deferred,
    Fleet,
    NoAnswer,
    PreparedAudit,
    PreparedBatch,
    Subject,
)
from holdfast.control.scheduling.claims import Claim
from holdfast.control.settings.models import SettlementMode, Timeouts
from holdfast.durations import SECOND
from holdfast.errors import LedgerError, NotFoundError
from holdfast.ledger import check
from holdfast.ledger.interface import (
    MAX_BATCH,
    Batch,
    Entry,
    Ledger,
    batch_seed,
    fresh_seed,
    holding_id,
)
from holdfast.model.detection import samples
from holdfast.pdp import Expectation, draw_challenge, expect

MAX_COLLECTED = 128  # answers that are settled at once
GATHER_SECONDS = 0.01  # for which a first answer waits for more
GRACE_SECONDS = 1.0  # beyond the deadline, until a thread that still asks is abandoned
MAX_PER_NODE = 256  # audits of one node that run at once
NEVER_CONNECTED = "can't reach the node: no connection was made before the deadline"


class Waiting(NamedTuple):
    """An audit that waits for its node: since when, and when it is abandoned."""

    since: int  # by the clock, which may be set
    until: int  # by the steady clock


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
        lanes: Lanes | None = None,
        steady: Callable[[], int] = uptime,
    ) -> None:
        """Make a runner; `batch` returns a saved batch by its seed.

        `clock` may be set while audits run; `steady` counts milliseconds and is never set.
        """
        self._fleet, self._batch, self._contacts = fleet, batch, contacts
        self._cap, self._patience = sample_cap, patience
        self._clock, self._steady, self._seed = clock, steady, seed
        self._batch_size = MAX_BATCH if settlement is SettlementMode.BATCH else 1
        self._lanes: Lanes = lanes or ThreadLanes(clock, patience.at_once, steady)
        self._settlement = Settlement(clock)
        self._expectations: dict[bytes, Expectation] = {}  # of prepared audits, by challenge
        self._asked: dict[RunningAudit, Waiting] = {}
        self._per_node: Counter[bytes] = Counter()  # of those that run
        self._ended: list[RunningAudit] = []  # whose end no node is waited for

    def close(self) -> None:
        self._lanes.close()

    def abandon(self) -> None:
        self._asked.clear()
        self._per_node.clear()
        self._ended.clear()
        self._settlement = Settlement(self._clock)

    def release(self, claims: Sequence[Claim]) -> None:
        """Do nothing: an audit by a proof leaves nothing behind."""

    def gas_price(self) -> int:
        return self._fleet.gas_price()

    def busy_nodes(self) -> Collection[bytes]:
        return [node for node, count in self._per_node.items() if count >= MAX_PER_NODE]

    def prepare(self, claims: Sequence[Claim]) -> PreparedBatch:
        """Draw challenges over the current inventories, and compute their targets."""
        deadline = -(-(self._clock() + self._patience.deadline) // SECOND)  # rounded up
        self._expectations.clear()  # of audits that could not be saved
        subjects = self._subjects(claims)
        by_ledger: dict[Ledger, list[Claim]] = {}
        for claim in claims:
            ledger = self._fleet.ledger(subjects[claim.name].key.sectors)
            by_ledger.setdefault(ledger, []).append(claim)
        prepared: dict[int, PreparedAudit] = {}
        batches = []
        for ledger, due in by_ledger.items():
            since = _height(ledger)
            for first in range(0, len(due), self._batch_size):
                members = due[first : first + self._batch_size]
                seed = self._seed() if len(members) > 1 else None
                entries = []
                for claim in members:
                    subject = subjects[claim.name]
                    if seed:
                        own = batch_seed(seed, holding_id(ledger.sender, subject.number))
                    else:
                        own = fresh_seed(ledger, subject.number, self._clock(), self._seed())
                    pending, capped = self._draw(claim, subject, own, deadline)
                    entries.append((_entry(subject, pending).encode(), claim.id, pending, capped))
                entries.sort(key=itemgetter(0))  # as the ledger requires
                for index, (_, claim_id, pending, capped) in enumerate(entries):
                    placed = replace(pending, batch=seed, index=index, since=since)
                    prepared[claim_id] = PreparedAudit(placed, capped)
                if seed:
                    words = tuple(word for word, *_ in entries)
                    batches.append(Batch(ledger.sender, seed, deadline, words))
        return PreparedBatch([prepared[claim.id] for claim in claims], batches)

    def _subjects(self, claims: Sequence[Claim]) -> dict[str, Subject]:
        subjects = dict(self._fleet.holdings({claim.name for claim in claims}))
        for claim in claims:
            if claim.name not in subjects:
                raise NotFoundError(f"there is no holding {claim.name!r} any more")
        return subjects

    def _draw(
        self, claim: Claim, subject: Subject, seed: bytes, deadline: int
    ) -> tuple[PendingAudit, bool]:
        inventory = subject.inventory
        wanted = int(samples(claim.ratio, inventory.blocks, inventory.blocks))
        challenge = draw_challenge(inventory, min(wanted, self._cap), seed=seed)
        expectation = expect(subject.key, inventory, challenge)
        self._expectations[challenge.id] = expectation
        target = expectation.target()
        address = check.target_address(target)
        return PendingAudit(
            claim.due, challenge, target.point, address, deadline
        ), wanted > self._cap

    def start(self, audits: Sequence[tuple[Claim, PendingAudit]]) -> None:
        """Open challenges and ask for their proofs; those that are known to end are not asked."""
        seeds = dict.fromkeys(pending.batch for _, pending in audits if pending.batch)
        batches = {seed: self._batch(seed) for seed in seeds}
        subjects = self._subjects([claim for claim, _ in audits])
        openings: Openings = {}
        asked: list[RunningAudit] = []
        for claim, pending in audits:
            subject = subjects[claim.name]
            ledger = self._fleet.ledger(subject.key.sectors)
            batch = batches[pending.batch] if pending.batch else None
            audit = RunningAudit(
                claim,
                subject,
                LedgerChallenge(subject, ledger, pending, batch),
                pending,
                fresh=claim.flight is None,
                expectation=self._expectations.pop(pending.challenge.id, None),
            )
            audit.open(self._clock(), openings)
            self._per_node[audit.node] += 1
            (asked if audit.latest is None else self._ended).append(audit)
        self._choose_compared(asked)
        now, steady = self._clock(), self._steady()
        for audit in asked:
            limit = round((audit.seconds(now) + GRACE_SECONDS) * SECOND)
            self._asked[audit] = Waiting(now, steady + limit)
        self._lanes.ask(asked)

    def collect(self, seconds: float) -> list[tuple[Claim, AuditResult | Deferred]]:
        """Wait for replies, settle what was answered, and return the audits that end."""
        self._lanes.ask(())
        replied = self._receive(seconds)
        for audit in replied:
            if audit.answer:
                self._settlement.add(audit)
            else:
                self._ended.append(audit)
        self._record_contacts(replied)
        ended, self._ended = self._ended + self._settlement.settle(self._asked), []
        expire_audits(ended, self._patience, self._clock())
        self._per_node -= Counter(audit.node for audit in ended)
        return [
            (audit.claim, audit.conclude(self._patience, self._clock(), self._judge_absence))
            for audit in ended
        ]

    def _receive(self, seconds: float) -> list[RunningAudit]:
        """Return the audits that got a reply; the first one is waited for at most that long."""
        if self._ended:
            seconds = 0.0
        over = time.monotonic() + min(seconds, self._settlement.wait_seconds)
        replied: list[RunningAudit] = []
        while self._asked and len(replied) < MAX_COLLECTED:
            try:
                item = self._lanes.replies.get(timeout=max(over - time.monotonic(), 0.0))
            except Empty:
                break
            if isinstance(item, BaseException):
                raise item
            audit, reply = item
            if self._asked.pop(audit, None) is not None:  # else it was abandoned
                audit.receive(reply)
                replied.append(audit)
            over = min(over, time.monotonic() + GATHER_SECONDS)
        return replied + self._abandon()

    def _abandon(self) -> list[RunningAudit]:
        """Return the audits whose requests still run after their time."""
        now, steady = self._clock(), self._steady()
        stuck = [audit for audit, waiting in self._asked.items() if waiting.until < steady]
        for audit in stuck:
            since = self._asked.pop(audit).since
            audit.receive(Reply(NoAnswer(NEVER_CONNECTED, delivered=False), since, now))
        return stuck

    def _choose_compared(self, asked: Sequence[RunningAudit]) -> None:
        """Choose the challenges that are compared with probes: one per node at a time."""
        first = {audit.node: audit for audit in reversed(asked) if not audit.pending.tries}
        for node in self._contacts.present_nodes(first):
            first[node].compare_with_probes()

    def _record_contacts(self, replied: Sequence[RunningAudit]) -> None:
        """Record which nodes were present."""
        reached: dict[bytes, bool] = {}
        for audit in replied:
            reached[audit.node] = reached.get(audit.node, False) or audit.reached
        present = [audit.node for audit in replied if audit.pop_compared()]
        if reached:
            self._contacts.record_challenges(reached, present, self._clock())

    def _judge_absence(self, audit: RunningAudit) -> str:
        pending = audit.pending
        return self._contacts.judge_absence(
            audit.node, pending.opened_at or 0, pending.sent or 0, counted=pending.counted
        )


def _entry(subject: Subject, pending: PendingAudit) -> Entry:
    challenge, target = pending.challenge, pending.target_address
    return Entry(target, subject.number, challenge.samples, challenge.inventory_hash[:4])


def _height(ledger: Ledger) -> int:
    try:
        return ledger.height()
    except LedgerError:
        return 0
