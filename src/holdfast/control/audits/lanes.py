"""Lanes: every node is asked in threads of its own, many challenges in one request.

A node that hangs, is slow or refuses keeps only its own lane waiting.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Event, Lock, Thread, get_ident
from typing import Protocol

from holdfast.control.audits.running_audit import MIN_ASK_SECONDS, Reply, RunningAudit
from holdfast.control.audits.types import NoAnswer
from holdfast.durations import SECOND
from holdfast.errors import NodeError, UnreachableError
from holdfast.ledger.interface import Answer
from holdfast.node.wire import Code, NodeRefusedError

MAX_QUESTIONS = 32  # in one request
MAX_BUSY_REPLIES = 20  # to one audit in a run; then it is tried again later
BUSY_PAUSE_SECONDS, MAX_BUSY_PAUSE_SECONDS = 0.02, 1.0
STUCK = 2 * SECOND  # after which a request keeps no other waiting behind it
MAX_STUCK = 16  # requests to one node

Item = tuple[RunningAudit, Reply] | BaseException


def uptime() -> int:
    """Return milliseconds by a clock that is never set."""
    return time.monotonic_ns() // 1_000_000


class Lanes(Protocol):
    """Asks nodes for proofs, and puts what comes of it into `replies`."""

    replies: SimpleQueue[Item]

    def ask(self, audits: Sequence[RunningAudit]) -> None:
        """Ask for these, and see to those that wait; to be called again and again."""

    def close(self) -> None: ...


class ThreadLanes:
    """A lane per node, each with up to `at_once` threads."""

    def __init__(
        self, clock: Callable[[], int], at_once: int, steady: Callable[[], int] = uptime
    ) -> None:
        """Make lanes; `clock` may be set meanwhile, `steady` never is."""
        self.replies: SimpleQueue[Item] = SimpleQueue()
        self._clock, self._at_once, self._steady = clock, at_once, steady
        self._closing = Event()
        self._lanes: dict[bytes, _Lane] = {}

    def ask(self, audits: Sequence[RunningAudit]) -> None:
        by_node: dict[bytes, list[RunningAudit]] = {}
        for audit in audits:
            by_node.setdefault(audit.node, []).append(audit)
        for node, group in by_node.items():
            if node not in self._lanes:
                self._lanes[node] = _Lane(
                    self._clock, self._steady, self._at_once, self.replies, self._closing
                )
            self._lanes[node].add(group)
        for lane in self._lanes.values():
            lane.start_threads()

    def close(self) -> None:
        """Start no further request; those that run are abandoned."""
        self._closing.set()


class _Lane:
    """The audits that wait for one node."""

    def __init__(
        self,
        clock: Callable[[], int],
        steady: Callable[[], int],
        at_once: int,
        replies: SimpleQueue[Item],
        closing: Event,
    ) -> None:
        self._clock, self._steady, self._at_once = clock, steady, at_once
        self._replies, self._closing = replies, closing
        self._lock = Lock()
        self._queue: deque[RunningAudit] = deque()
        self._busy_replies: dict[RunningAudit, int] = {}
        self._threads = 0
        self._began: dict[int, int] = {}  # of the request that each thread waits for

    def add(self, audits: Sequence[RunningAudit]) -> None:
        with self._lock:
            self._queue.extend(audits)

    def start_threads(self) -> None:
        """Start threads for those that wait.

        A node that hangs keeps its threads until the deadline. They don't count, or the audits
        behind them would not be asked for in time, and that would look like our own fault.
        """
        with self._lock:
            now = self._steady()
            stuck = sum(now - began > STUCK for began in self._began.values())
            wanted = min(self._at_once, math.ceil(len(self._queue) / MAX_QUESTIONS))
            while self._queue and self._threads < wanted + min(stuck, MAX_STUCK):
                self._threads += 1
                # A daemon: a slow name lookup delays no exit.
                Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        pause = BUSY_PAUSE_SECONDS
        while batch := self._take():
            try:
                busy = self._ask(batch)
            except BaseException as error:  # noqa: BLE001 - raised where replies are awaited
                self._replies.put(error)
                with self._lock:
                    self._threads -= 1
                return
            pause = min(2 * pause, MAX_BUSY_PAUSE_SECONDS) if busy else BUSY_PAUSE_SECONDS
            if busy:
                self._closing.wait(pause)

    def _take(self) -> list[RunningAudit]:
        """Take the audits of the next request, or end this thread."""
        with self._lock:
            if not self._queue or self._closing.is_set():
                self._threads -= 1
                return []
            batch = [self._queue.popleft()]
            # Its holdings may know a node by several addresses.
            while (
                self._queue
                and len(batch) < MAX_QUESTIONS
                and self._queue[0].prover is batch[0].prover
            ):
                batch.append(self._queue.popleft())
            return batch

    def _ask(self, batch: Sequence[RunningAudit]) -> bool:
        """Ask for the proofs of a batch; return whether the node was too busy for some."""
        sent = self._clock()
        # Those that wait behind it share the time until the deadline.
        rounds = 1 + len(self._queue) // (MAX_QUESTIONS * self._at_once)
        seconds = min(audit.seconds(sent) for audit in batch) / rounds
        began = self._began[get_ident()] = self._steady()
        try:
            answers = ask_node(batch, max(seconds, MIN_ASK_SECONDS))
        finally:
            del self._began[get_ident()]
        # The clock may have been set meanwhile: that must not make an answer late.
        ended = sent + self._steady() - began
        again = []
        for audit, answer in zip(batch, answers, strict=True):
            if _is_busy(answer) and self._may_wait(audit, ended):
                again.append(audit)
            else:
                self._busy_replies.pop(audit, None)
                self._replies.put((audit, Reply(as_reply(answer), sent, ended)))
        with self._lock:
            self._queue.extend(again)
        return bool(again)

    def _may_wait(self, audit: RunningAudit, now: int) -> bool:
        """Return whether a busy node is asked again at once."""
        self._busy_replies[audit] = self._busy_replies.get(audit, 0) + 1
        return self._busy_replies[audit] <= MAX_BUSY_REPLIES and audit.left(now) > 0


def ask_node(batch: Sequence[RunningAudit], seconds: float) -> Sequence[Answer | Exception]:
    """Ask one node for several proofs in one request; an error of the whole is one of each."""
    questions = [audit.challenge.question for audit in batch]
    try:
        return batch[0].prover.prove_many(questions, seconds=seconds)
    except (NodeError, NodeRefusedError) as error:
        return [error] * len(batch)


def _is_busy(answer: Answer | Exception) -> bool:
    return isinstance(answer, NodeRefusedError) and answer.code is Code.BUSY


def as_reply(answer: Answer | Exception) -> Answer | NoAnswer:
    """Return the answer, or in words why there is none."""
    if isinstance(answer, Answer):
        return answer
    if isinstance(answer, NodeRefusedError):
        # A holding is audited once its node has taken it on: a node that knows no such holding has
        # lost it. Another inventory is no loss, because the home may be an old copy.
        admitted = answer.code in {Code.DAMAGED, Code.UNKNOWN_HOLDING}
        return NoAnswer(f"the node refuses to prove it: {answer}", admitted=admitted)
    if isinstance(answer, UnreachableError):
        return NoAnswer(f"{answer}; that is not a failed proof", delivered=False)
    if isinstance(answer, NodeError):
        return NoAnswer(str(answer))
    raise answer
