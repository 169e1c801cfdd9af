"""The challenger: draws challenges, has them opened, asks nodes and has the answers settled.

The ledger hears of each audit by itself, or of all that are due together: which is cheaper, and
comes to the same. Every node has threads of its own, and answers are settled soon after they come:
a node that hangs holds up nobody's answer but its own. A node that can't be reached is asked again
until the deadline: an outage is not a loss. Only then does the ledger say that the time has run
out, and the outcome whether the node had taken the challenge.
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
from holdfast.control.audits.settlement import Reply, RunningAudit, expire_together, settle_answers
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

QUIET_SECONDS = 10.0  # without another answer, after which those in hand are settled
GRACE_SECONDS = 1.0  # beyond the deadline, until a thread that still asks is left alone
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
        """Make a challenger; `batch` returns one that was written down, by its seed."""
        self._fleet, self._batch, self._contacts = fleet, batch, contacts
        self._cap, self._patience = sample_cap, patience
        self._clock, self._seed = clock, seed
        self._together = MAX_BATCH if settlement is SettlementMode.BATCH else 1

    def gas_price(self) -> int:
        return self._fleet.gas_price()

    def prepare(self, claims: Sequence[Claim]) -> PreparedBatch:
        """Draw fresh challenges over what the holdings have now, and compute their targets."""
        deadline = (self._clock() + self._patience.deadline) // SECOND
        of_ledger: dict[Ledger, list[Claim]] = {}
        for claim in claims:
            of_ledger.setdefault(self._fleet.ledger(claim.name), []).append(claim)
        prepared: dict[int, PreparedAudit] = {}
        batches = []
        for ledger, due in of_ledger.items():
            since = _height(ledger)
            for first in range(0, len(due), self._together):
                some = due[first : first + self._together]
                seed = self._seed() if len(some) > 1 else None
                drawn = []
                for claim in some:
                    subject = self._fleet.subject(claim.name)
                    if seed:
                        own = batch_seed(seed, id_on(ledger, subject))
                    else:
                        own = fresh_seed(ledger, subject.number, self._clock(), self._seed())
                    flight, capped = self._drawn(claim, subject, own, deadline)
                    drawn.append((_entry(subject, flight).encode(), claim.id, flight, capped))
                drawn.sort(key=itemgetter(0))  # as the ledger asks of a batch
                for index, (_, claim_id, flight, capped) in enumerate(drawn):
                    placed = replace(flight, batch=seed, index=index, since=since)
                    prepared[claim_id] = PreparedAudit(placed.encode(), capped)
                if seed:
                    words = tuple(word for word, *_ in drawn)
                    batches.append(Batch(ledger.sender, seed, deadline, words))
        return PreparedBatch([prepared[claim.id] for claim in claims], batches)

    def _drawn(
        self, claim: Claim, subject: Subject, seed: bytes, deadline: int
    ) -> tuple[PendingAudit, bool]:
        inventory = subject.inventory
        wanted = int(samples(claim.ratio, inventory.blocks, inventory.blocks))
        challenge = draw_challenge(inventory, min(wanted, self._cap), seed=seed)
        target = target_of(subject.key, inventory, challenge)
        return PendingAudit(claim.due, challenge, target, deadline), wanted > self._cap

    def carry_out(self, audits: Sequence[tuple[Claim, bytes]]) -> list[AuditResult | Deferred]:
        """Carry out audits side by side; the ledger hears of one call after the other."""
        flights = [PendingAudit.decode(flight) for _, flight in audits]
        seeds = dict.fromkeys(flight.batch for flight in flights if flight.batch)
        batches = {seed: self._batch(seed) for seed in seeds}
        going = []
        for (claim, _), flight in zip(audits, flights, strict=True):
            subject, ledger = self._fleet.subject(claim.name), self._fleet.ledger(claim.name)
            batch = batches[flight.batch] if flight.batch else None
            going.append(RunningAudit(subject, ledger, flight, batch, anew=claim.flight is None))
        opened: dict[bytes, int | Exception] = {}
        for each in going:
            each.open(self._clock(), opened)
        asked = [each for each in going if each.told is None]
        self._count(asked)
        self._ask_and_settle(asked)
        self._record(asked)
        expire_together(going, self._patience, self._clock())
        return [each.concluded(self._patience, self._clock(), self._absence) for each in going]

    def _count(self, asked: Sequence[RunningAudit]) -> None:
        """Choose which challenges are compared with probes: one of a node's at a time."""
        first = {each.node: each for each in reversed(asked) if not each.flight.tries}
        for node in self._contacts.fresh(first):
            first[node].count()

    def _ask_and_settle(self, asked: Sequence[RunningAudit]) -> None:
        """Ask nodes side by side, and settle what has come whenever no more comes for a while.

        While a node that hangs is waited for, others that gave no answer are asked again when that
        is due: nobody's silence is excused by a neighbour.
        """
        replies: Replies = SimpleQueue()
        _start_asking(asked, self._patience.at_once, self._clock, replies)
        first, again = (
            set(asked),
            set[RunningAudit](),
        )  # asked for the first time in this go, and again
        in_hand, retries = _InHand(self._clock), _Retries(self._clock, self._patience)
        longest = max((each.seconds(self._clock()) for each in asked), default=0.0)
        over = time.monotonic() + longest + GRACE_SECONDS
        while (first or again) and time.monotonic() < over:
            left = min(over, in_hand.until, retries.until if first else math.inf) - time.monotonic()
            try:
                going, reply = replies.get(timeout=max(left, 0.0))
            except Empty:
                if first:
                    due = retries.pop_due()
                    again.update(due)
                    _start_asking(due, self._patience.at_once, self._clock, replies)
                if in_hand.until <= time.monotonic():
                    in_hand.settle()
                continue
            if isinstance(reply, BaseException):
                raise reply
            going.take(reply)
            in_hand.add(going)
            retries.add(going)
            first.discard(going)
            again.discard(going)
        in_hand.settle()
        for going in (*first, *again):
            going.take(Reply(NoAnswer(NEVER_CONNECTED, delivered=False), now := self._clock(), now))

    def _record(self, asked: Sequence[RunningAudit]) -> None:
        """Record which nodes were there."""
        reached: dict[bytes, bool] = {}
        for each in asked:
            reached[each.node] = reached.get(each.node, False) or each.reached
        present = [each.node for each in asked if each.met()]
        if reached:
            self._contacts.record_asks(reached, present, self._clock())

    def _absence(self, going: RunningAudit) -> str:
        flight = going.flight
        return self._contacts.judge_absence(
            going.node, flight.opened_at or 0, flight.sent or 0, counted=flight.counted
        )


class _InHand:
    """Answers that are not settled yet: they wait for more, but never for long."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._answers: list[RunningAudit] = []
        self._latest = self.until = math.inf  # by the monotonic clock

    def add(self, going: RunningAudit) -> None:
        if not going.answer:
            return
        left, now = max(going.left(self._clock()), 0.0), time.monotonic()
        self._answers.append(going)
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

    def add(self, going: RunningAudit) -> None:
        now = self._clock()
        if isinstance(going.told, NoAnswer) and going.left(now) > 0:
            wait = max(going.next_try(self._patience, now) - now, 0) / SECOND
            self._due[going] = time.monotonic() + wait

    def pop_due(self) -> list[RunningAudit]:
        now = time.monotonic()
        due = [going for going, moment in self._due.items() if moment <= now]
        for going in due:
            del self._due[going]
        return [going for going in due if going.left(self._clock()) > 0]


def _start_asking(
    asked: Sequence[RunningAudit], at_once: int, clock: Callable[[], int], replies: Replies
) -> None:
    """Ask every node in threads of its own, so many at once."""
    lanes: dict[bytes, deque[RunningAudit]] = {}
    for each in asked:
        lanes.setdefault(each.node, deque()).append(each)
    for lane in lanes.values():
        threads = min(at_once, len(lane))
        for _ in range(threads):
            # A daemon: what a resolver of names takes too long for holds up no exit.
            Thread(target=_ask_lane, args=(lane, threads, clock, replies), daemon=True).start()


def _ask_lane(
    lane: deque[RunningAudit], threads: int, clock: Callable[[], int], replies: Replies
) -> None:
    while True:
        try:
            going = lane.popleft()
        except IndexError:
            return
        rounds = 1 + math.ceil(len(lane) / threads)  # which share the time that is left
        try:
            replies.put((going, going.ask(clock, 1 / rounds)))
        except BaseException as error:  # noqa: BLE001 - raised where the answers are awaited
            replies.put((going, error))
            return


def _entry(subject: Subject, flight: PendingAudit) -> Entry:
    challenge, target = flight.challenge, check.target_address(flight.target)
    return Entry(target, subject.number, challenge.samples, challenge.inventory_hash[:4])


def _height(ledger: Ledger) -> int:
    try:
        return ledger.height()
    except LedgerError:
        return 0
