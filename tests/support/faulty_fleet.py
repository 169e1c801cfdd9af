"""Nodes, a ledger and lanes that fail as a plan says, on a clock that is simulated.

Keys, data, proofs, signatures and the ledger are real. What every node was asked, and what was
wrong with it at that moment, is kept: it is the truth that evidence is compared with.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import count
from queue import SimpleQueue
from typing import Any

import numpy as np
from coincurve import PrivateKey
from tests.support import memory_holding
from tests.support.fault_plan import BLOCKS, FaultPlan, Kind, NodeFault, OwnFault, Trouble
from tests.support.simulated_fleet import START

from holdfast.control.audits.lanes import MAX_BUSY_REPLIES, Item, as_reply
from holdfast.control.audits.running_audit import Reply, RunningAudit
from holdfast.durations import SECOND
from holdfast.errors import LedgerError, NodeError, UnreachableError
from holdfast.ledger import signing
from holdfast.ledger.interface import Answer, Ledger
from holdfast.ledger.keccak import address_of
from holdfast.node.proof_messages import ProofQuestion
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.pdp import Inventory, PublicKey, SecretKey

REFUSAL_TIME = 30  # milliseconds that a refusal takes
MAX_ANSWER_TIME = 20 * SECOND  # of a healthy node
BLOCK_BYTES = 31


class Killed(BaseException):
    """A worker was killed."""


@dataclass
class Time:
    """Time that passes evenly, and a clock of the day that can be set."""

    elapsed: int = 0
    shift: int = 0

    def wall(self) -> int:
        return START + self.elapsed + self.shift

    def steady(self) -> int:
        return self.elapsed

    def seconds(self) -> float:
        return self.wall() / 1000

    def set_clock(self, shift: int) -> None:
        """Set the clock of the day forward, or back."""
        self.shift += shift


@dataclass
class Steps:
    """Counts the steps of workers, and does something at a chosen step, such as killing one."""

    _ahead: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    _taken: int = 0

    def after(self, steps: int, act: Callable[[], None]) -> None:
        self._ahead.append((self._taken + steps, act))

    def take(self) -> None:
        self._taken += 1
        due = [item for item in self._ahead if item[0] <= self._taken]
        self._ahead = [item for item in self._ahead if item[0] > self._taken]
        for _, act in due:
            act()


def kill() -> None:
    raise Killed


@dataclass(frozen=True)
class Ask:
    """One request for a proof: when it was made, what was wrong then, and what was sampled."""

    elapsed: int
    kinds: frozenset[Kind]
    damage_met: bool


@dataclass
class SimulatedHolding:
    """A holding as the runner sees it; `asks` is what its node was asked, by challenge."""

    name: str
    number: int
    node: "SimulatedNode"
    stored: memory_holding.Holding
    asks: dict[bytes, list[Ask]] = field(default_factory=lambda: defaultdict(list))

    @property
    def key(self) -> SecretKey:
        return self.stored.key

    @property
    def address(self) -> bytes:
        return self.node.address

    @property
    def inventory(self) -> Inventory:
        return self.stored.inventory


class SimulatedNode:
    """A node with its faults; times are milliseconds since the start."""

    def __init__(self, number: int, seed: int, faults: Sequence[NodeFault], time: Time) -> None:
        self._rng = np.random.default_rng((seed, 2, number))
        self.private = PrivateKey(self._rng.bytes(32))
        self.address = address_of(self.private.public_key)
        self.holdings: dict[bytes, SimulatedHolding] = {}
        self._faults, self._time = faults, time

    def prove_many(
        self, questions: Sequence[ProofQuestion], *, seconds: float
    ) -> Sequence[Answer | Exception]:
        return [self.reply(question, seconds)[0] for question in questions]

    def reply(
        self, question: ProofQuestion, seconds: float
    ) -> tuple[Answer | Exception, int | None]:
        """Return what comes of a request, and after how long; None if its thread never returns."""
        now = self._time.steady()
        faults = {fault.kind: fault for fault in self._faults if fault.begin <= now < fault.end}
        holding = self.holdings[question.key_id]
        damaged = self._damaged_blocks(holding, now)
        sampled = set(question.challenge.sample.indices.tolist())
        limit = round(seconds * SECOND)
        delay = int(MAX_ANSWER_TIME * self._rng.random() ** 8)  # most often far less
        delay = faults[Kind.SLOW].delay if Kind.SLOW in faults else min(delay, limit)
        kinds = frozenset(faults) - {Kind.DAMAGED}
        if delay <= limit:
            kinds -= {Kind.SLOW}  # slow, but not too slow
        ask = Ask(now, kinds, not damaged.isdisjoint(sampled))
        holding.asks[question.challenge.id].append(ask)
        for kind, (error, after) in _refusals(limit).items():
            if kind in faults:
                return error, after
        if delay > limit:
            return NodeError("the node did not answer in time"), limit
        return self._prove(question, holding, damaged), delay

    def _damaged_blocks(self, holding: SimulatedHolding, now: int) -> set[int]:
        position = list(self.holdings.values()).index(holding)
        losses = (
            fault.blocks
            for fault in self._faults
            if fault.kind is Kind.DAMAGED
            and fault.holding == position
            and fault.begin <= now < fault.end
        )
        return {block for blocks in losses for block in blocks}

    def _prove(
        self, question: ProofQuestion, holding: SimulatedHolding, damaged: Collection[int]
    ) -> Answer:
        challenge, to = question.challenge, question.to
        assert to is not None
        for block in damaged:
            holding.stored.damage(block)
        proof = holding.stored.prove(challenge)
        for block in damaged:
            holding.stored.damage(block)  # flipped back
        name = to.name_of(challenge)
        return Answer(proof, signing.sign(self.private, to.domain, to.holding_id, name, proof))


def _refusals(limit: int) -> dict[Kind, tuple[Exception, int | None]]:
    """Return what comes of a request to a node with such a fault, and after how long."""
    return {
        Kind.AWAY: (UnreachableError("can't reach the node: nobody listens"), REFUSAL_TIME),
        Kind.STUCK: (UnreachableError("can't reach the node: no name"), None),
        Kind.HUNG: (NodeError("the node did not answer in time"), limit),
        Kind.BUSY: (NodeRefusedError(Code.BUSY, "too many requests at once"), REFUSAL_TIME),
        Kind.ADMITS: (NodeRefusedError(Code.DAMAGED, "what was stored is damaged"), REFUSAL_TIME),
    }


class FaultyLedger:
    """A ledger that can't be reached, or loses its answers, while the plan says so."""

    def __init__(self, inner: Ledger, faults: Sequence[OwnFault], time: Time, steps: Steps) -> None:
        self._inner, self._faults, self._time, self._steps = inner, faults, time, steps

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return self._wrap(value) if callable(value) else value

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._inner.together():
            yield
            self._steps.take()
        self._steps.take()

    def _wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def attempt(*arguments: Any, **named: Any) -> Any:
            self._steps.take()
            if self._fails(Trouble.LEDGER_AWAY):
                raise LedgerError("can't reach the ledger")
            result = call(*arguments, **named)
            self._steps.take()
            if self._fails(Trouble.LEDGER_MUTE):
                raise LedgerError("the ledger's answer was lost")
            return result

        return attempt

    def _fails(self, trouble: Trouble) -> bool:
        now = self._time.steady()
        return any(f.trouble is trouble and f.begin <= now < f.end for f in self._faults)


class FaultyFleet:
    """All holdings, on nodes that fail."""

    def __init__(self, seed: int, plan: FaultPlan, count: tuple[int, int], time: Time) -> None:
        nodes, each_has = count
        self.nodes = [
            SimulatedNode(number, seed, [f for f in plan.nodes if f.node == number], time)
            for number in range(nodes)
        ]
        self.by_name: dict[str, SimulatedHolding] = {}
        for number in range(nodes * each_has):
            node = self.nodes[number // each_has]
            stored = memory_holding.Holding.of(
                BLOCK_BYTES * BLOCKS - 1, sectors=1, seed=1000 * seed + number
            )
            holding = SimulatedHolding(f"holding-{number}", number, node, stored)
            node.holdings[stored.key.public.id] = holding
            self.by_name[holding.name] = holding
        self.chain: Any = None

    def register(self, chain: Ledger) -> None:
        for holding in self.by_name.values():
            chain.register(holding.key.public, holding.address)

    def holdings(self, names: Collection[str]) -> dict[str, SimulatedHolding]:
        return {name: self.by_name[name] for name in names}

    def ledger(self, _sectors: int) -> Ledger:
        ledger: Ledger = self.chain
        return ledger

    def gas_price(self) -> int:
        return 0

    def rows(self) -> list[tuple[str, int, PublicKey]]:
        return [(h.name, BLOCKS, h.key.public) for h in self.by_name.values()]


class Replies(SimpleQueue[Item]):
    """Replies that have arrived; nobody waits for more in real time."""

    def get(self, block: bool = True, timeout: float | None = None) -> Item:  # noqa: ARG002, FBT
        return super().get(block=False)


@dataclass(frozen=True)
class Sent:
    """A request that is under way: when it began and ends, by the clock at its beginning."""

    sent: int
    ended: int
    busy_replies: int  # before it


class SimulatedLanes:
    """Lanes without threads, in which replies arrive when simulated time has passed."""

    def __init__(self, time: Time, steps: Steps) -> None:
        self.replies: SimpleQueue[Item] = Replies()
        self._time, self._steps = time, steps
        self._coming: list[tuple[int, int, RunningAudit, Answer | Exception, Sent]] = []
        self._order = count()

    def ask(self, audits: Sequence[RunningAudit]) -> None:
        for audit in audits:
            self._steps.take()
            self._ask(audit, 0)

    def _ask(self, audit: RunningAudit, busy_replies: int) -> None:
        node, sent = audit.prover, self._time.wall()
        assert isinstance(node, SimulatedNode)
        answer, delay = node.reply(audit.challenge.question, audit.seconds(sent))
        if delay is not None:
            request = Sent(sent, sent + delay, busy_replies)
            arrives = self._time.steady() + delay
            heapq.heappush(self._coming, (arrives, next(self._order), audit, answer, request))

    def next_arrival(self) -> int | None:
        return self._coming[0][0] if self._coming else None

    def deliver(self) -> bool:
        """Bring the replies that have arrived by now; ask nodes that were busy again.

        Return whether there is a reply that a worker has not read.
        """
        while self._coming and self._coming[0][0] <= self._time.steady():
            _, _, audit, answer, request = heapq.heappop(self._coming)
            busy = isinstance(answer, NodeRefusedError) and answer.code is Code.BUSY
            waits = request.busy_replies < MAX_BUSY_REPLIES and audit.left(request.ended) > 0
            if busy and waits:
                self._ask(audit, request.busy_replies + 1)
            else:
                reply = Reply(as_reply(answer), request.sent, request.ended)
                self.replies.put((audit, reply))
        return not self.replies.empty()

    def close(self) -> None:
        self._coming.clear()
