"""Runs checks of storage that no node stores, each step in a thread of its own.

A storage that hangs keeps only its own thread. No lease is held for the length of a check: between
two steps the holding is back on the schedule, and any worker may take the next one.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Thread

from holdfast.control.audits.check_steps import WATCH, CheckSteps
from holdfast.control.audits.pending_check import PendingCheck, Phase
from holdfast.control.audits.types import AuditResult, Deferred, PreparedAudit, PreparedBatch
from holdfast.control.scheduling.claims import Claim
from holdfast.durations import MINUTE
from holdfast.words import span

MAX_THREADS = 64
POLL_TIME = WATCH + 2 * MINUTE  # after which a step that watches a check counts as hung


@dataclass(eq=False)
class _Step:
    """A step that is under way, or waits for a thread."""

    claim: Claim
    pending: PendingCheck
    until: int = 0  # by the steady clock; then it counts as hung
    thread: Thread | None = None


@dataclass
class _Results:
    """What steps came to, and whether those that watch are to end."""

    queue: SimpleQueue[tuple[_Step, AuditResult | Deferred | BaseException]] = field(
        default_factory=SimpleQueue
    )
    stopping: Event = field(default_factory=Event)


class CheckRunner:
    def __init__(
        self,
        steps: CheckSteps,
        *,
        listing: int,
        clock: Callable[[], int],
        steady: Callable[[], int],
        seed: Callable[[], bytes],
    ) -> None:
        """Make a runner; a storage may take `listing` milliseconds to say what it has.

        `clock` may be set while checks run; `steady` counts milliseconds and is never set.
        """
        self._steps, self._listing = steps, listing
        self._clock, self._steady, self._seed = clock, steady, seed
        self._queue: deque[_Step] = deque()
        self._running: set[_Step] = set()
        self._hung: dict[int, Thread] = {}  # by holding
        self._ended: list[tuple[Claim, AuditResult | Deferred]] = []
        self._left: dict[int, list[bytes]] = {}  # jobs of checks that have ended, by holding
        self._results = _Results()

    def close(self) -> None:
        self._results.stopping.set()

    def abandon(self) -> None:
        self._results.stopping.set()
        self._results = _Results()
        self._queue.clear()
        self._running.clear()
        self._ended.clear()
        self._left.clear()

    def gas_price(self) -> int:
        return 0

    def busy_nodes(self) -> Collection[bytes]:
        return ()

    def prepare(self, claims: Sequence[Claim]) -> PreparedBatch:
        """Prepare checks; their samples are drawn once it is known what there is."""
        now = self._clock()
        checks = [PendingCheck(claim.due, self._seed(), now) for claim in claims]
        return PreparedBatch([PreparedAudit(check, capped=False) for check in checks])

    def start(self, audits: Sequence[tuple[Claim, PendingCheck]]) -> None:
        claimed = {claim.id for claim, _ in audits}
        for step in [step for step in self._running if step.claim.id in claimed]:
            self._leave(step)  # its lease ended meanwhile
        for claim, pending in audits:
            hung = self._hung.get(claim.id)
            if hung is not None and hung.is_alive():
                self._give_up(_Step(claim, pending))
            else:
                self._hung.pop(claim.id, None)
                self._queue.append(_Step(claim, pending))
        self._fill()

    def collect(self, seconds: float) -> list[tuple[Claim, AuditResult | Deferred]]:
        """Return the steps that have ended; the first one is waited for at most that long."""
        over = time.monotonic() + (0.0 if self._ended else seconds)
        while self._running:
            try:
                step, result = self._results.queue.get(timeout=max(over - time.monotonic(), 0.0))
            except Empty:
                break
            over = 0.0
            if step not in self._running:  # it counted as hung
                continue
            self._running.remove(step)
            if isinstance(result, BaseException):
                raise result
            self._add(step, result)
        self._give_up_hung()
        self._fill()
        ended, self._ended = self._ended, []
        return ended

    def release(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            if jobs := self._left.pop(claim.id, None):
                arguments = (claim.name, jobs)
                Thread(target=self._steps.delete_jobs, args=arguments, daemon=True).start()

    def _fill(self) -> None:
        """Start steps, as many as may run at once."""
        while self._queue and len(self._running) < MAX_THREADS:
            step = self._queue.popleft()
            listing = step.pending.phase is Phase.LISTING
            step.until = self._steady() + (self._listing if listing else POLL_TIME)
            # A daemon: a storage that hangs delays no exit.
            step.thread = Thread(target=self._take, args=(step, self._results), daemon=True)
            self._running.add(step)
            step.thread.start()

    def _take(self, step: _Step, results: _Results) -> None:
        try:
            result = self._steps.take(step.claim, step.pending, results.stopping)
        except BaseException as error:  # noqa: BLE001 - raised where results are awaited
            results.queue.put((step, error))
        else:
            results.queue.put((step, result))

    def _give_up_hung(self) -> None:
        """Leave steps alone that take too long. Their threads end when the storage lets them."""
        now = self._steady()
        for step in [step for step in self._running if step.until < now]:
            self._leave(step)
            self._give_up(step)

    def _leave(self, step: _Step) -> None:
        """Leave a step alone; no other one of its holding begins before its thread ends."""
        self._running.remove(step)
        if step.thread is not None:
            self._hung[step.claim.id] = step.thread

    def _give_up(self, step: _Step) -> None:
        limit = self._listing if step.pending.phase is Phase.LISTING else POLL_TIME
        reason = f"the storage gave no answer within {span(limit)}"
        self._add(step, self._steps.retry(step.claim, step.pending, reason))

    def _add(self, step: _Step, result: AuditResult | Deferred) -> None:
        jobs = [job for job in (step.pending.job, step.pending.old_job) if job]
        if jobs and isinstance(result, AuditResult):
            self._left[step.claim.id] = jobs
        self._ended.append((step.claim, result))
