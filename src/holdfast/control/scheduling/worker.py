"""A worker: claims due holdings, has them audited, records the results and decides what is next.

Any number of workers may run, on any number of hosts: the schedule gives each its own holdings.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from threading import Event, Thread
from typing import Any

import numpy as np

from holdfast.control.audits.pending import Pending, decode_pending
from holdfast.control.audits.types import Auditor, AuditResult, CheckDetail, Deferred
from holdfast.control.policies.active import PolicyLoader
from holdfast.control.scheduling.claims import Claim, column
from holdfast.control.scheduling.decider import Decider, DecisionBatch, Rng
from holdfast.control.scheduling.guardrails import Override, Rails, hold_for_gas
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.settings.models import Pace
from holdfast.durations import SECOND
from holdfast.errors import StorageError
from holdfast.model.observation import HistoryConstants

COLLECT_SECONDS = 0.25  # for which a tick waits for the first reply
# Each extends a lease by a third: a worker that hangs must lose what it has in the end.
MAX_EXTENSIONS = 30


@dataclass(frozen=True)
class Tick:
    """What a worker did in one tick."""

    claimed: int = 0
    started: Mapping[str, bytes] = field(default_factory=dict)  # ids of audits, by holding
    running: int = 0  # audits that nodes have still to answer
    decided: int = 0
    held: int = 0
    waiting: int = 0
    trouble: tuple[str, ...] = ()  # with the ledger
    concluded: tuple[AuditResult, ...] = ()
    overrides: tuple[int, ...] = ()  # of each concluded audit
    shadowed: int = 0  # decisions that the challenger took, too
    agreed: int = 0  # and took the same way
    shadow_trouble: tuple[str, ...] = ()

    def with_shadows(self, batch: DecisionBatch) -> "Tick":
        """Count what shadows did beside these decisions."""
        shadows = batch.shadows
        return replace(
            self,
            shadowed=self.shadowed + shadows.decisions,
            agreed=self.agreed + shadows.agreed,
            shadow_trouble=(*self.shadow_trouble, *shadows.trouble),
        )

    @property
    def busy(self) -> bool:
        """Whether there is more to do at once, or soon."""
        return bool(self.claimed or self.running)


class Worker:
    def __init__(
        self,
        schedule: Schedule,
        auditor: Auditor[Any],
        policies: PolicyLoader,
        *,
        rails: Rails,
        constants: HistoryConstants,
        clock: Callable[[], int],
        rng: Rng,
        pace: Pace,
        timing: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._schedule, self._auditor = schedule, auditor
        self._rails, self._pace, self._clock, self._rng = rails, pace, clock, rng
        self._decider = Decider(
            schedule, policies, rails=rails, constants=constants, rng=rng, timing=timing
        )
        self._running: dict[int, Claim] = {}  # by holding
        self._lost: list[Claim] = []  # whose leases an error left
        self._extended = 0

    def tick(
        self, only: Collection[str] | None = None, asked: Mapping[str, float] | None = None
    ) -> Tick:
        """Start what is due now, up to a batch of it, and conclude what has ended.

        Replies are only waited for a moment: audits of slow nodes go on in later ticks. With
        `only`, other holdings than these are left alone. The holdings `asked` for are audited even
        if they are not due, each with a sample of that share of its blocks.
        """
        try:
            return self._tick(only, asked or {})
        except BaseException:
            # Another tick, of this worker or another, resumes what was saved.
            self._lost += self._running.values()
            self._running.clear()
            self._auditor.abandon()
            raise

    def stop(self, seconds: float) -> None:
        """Conclude what ends within that time; give up the rest, for other workers to resume."""
        over = time.monotonic() + seconds
        while self._running and time.monotonic() < over:
            self._collect(COLLECT_SECONDS)
        self._schedule.extend([*self._lost, *self._running.values()], 0)
        self._running.clear()
        self._auditor.abandon()

    def _tick(self, only: Collection[str] | None, asked: Mapping[str, float]) -> Tick:
        now = self._clock()
        if self._lost:
            self._schedule.extend(self._lost, 0)
            self._lost = []
        if not self._running:
            self._extended = now
        claims = self._claim_asked(now, asked) + self._claim(now, only)
        self._running |= {claim.id: claim for claim in claims}
        new = [claim for claim in claims if not claim.decided]
        first = self._decider.decide_first(new, now) if new else None
        known = [claim for claim in claims if claim.decided]
        audits = self._prepare(known, now)
        running = {claim.id for claim, _ in audits}
        for claim in claims:
            if claim.id not in running:
                del self._running[claim.id]
        with self._extend_leases():
            if audits:
                self._auditor.start(audits)
            tick = self._collect(COLLECT_SECONDS)
        tick = replace(
            tick,
            claimed=len(claims),
            started={claim.name: audit.id for claim, audit in audits if claim.flight is None},
            decided=len(new),
            held=len(known) - len(audits),
        )
        return tick.with_shadows(first) if first else tick

    def _claim_asked(self, now: int, asked: Mapping[str, float]) -> list[Claim]:
        if not asked:
            return []
        claims = self._schedule.claim(now, self._pace.lease, len(asked), only=asked, early=True)
        return [_ask_for(claim, asked[claim.name], now) for claim in claims]

    def _claim(self, now: int, only: Collection[str] | None) -> list[Claim]:
        pace = self._pace
        waits = pace.gather and not self._schedule.has_batch(now, pace.gather, pace.batch)
        return self._schedule.claim(
            now,
            pace.lease,
            pace.batch,
            under_way=bool(waits),
            without_nodes=self._auditor.busy_nodes(),
            only=only,
        )

    def _collect(self, seconds: float) -> Tick:
        results = self._auditor.collect(seconds) if self._running else []
        tick = self._conclude(results)
        for claim, _ in results:
            self._running.pop(claim.id, None)
        return replace(tick, running=len(self._running))

    @contextmanager
    def _extend_leases(self) -> Iterator[None]:
        """Extend the leases of running audits, also while the ledger takes its time.

        A ledger that hangs loses them in the end.
        """
        if not self._running:
            yield
            return
        if not 0 <= self._clock() - self._extended < self._pace.lease // 3:
            self._extend()
        over = Event()

        def extend() -> None:
            for _ in range(MAX_EXTENSIONS):
                if over.wait(self._pace.lease / SECOND / 3):
                    return
                with suppress(StorageError):  # the conclusion notices a lost lease
                    self._extend()

        thread = Thread(target=extend, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _extend(self) -> None:
        now = self._clock()
        self._schedule.extend(list(self._running.values()), now + self._pace.lease)
        self._extended = now

    def _prepare(self, claims: Sequence[Claim], now: int) -> list[tuple[Claim, Pending]]:
        """Save the audits that begin now; return them with those already under way."""
        under_way = [
            (claim, decode_pending(claim.flight)) for claim in claims if claim.flight is not None
        ]
        due = [claim for claim in claims if claim.flight is None]
        due = self._postpone_costly(due, now)
        if not due:
            return under_way
        prepared = self._auditor.prepare(due)
        starting = [
            (_note_cap(claim) if audit.capped else claim, audit.pending)
            for claim, audit in zip(due, prepared.audits, strict=True)
        ]
        rows = [
            {
                **_lease(claim),
                "due": claim.due,
                "ratio": claim.ratio,
                "overrides": claim.overrides,
                "flight": pending.encode(),
            }
            for claim, pending in starting
        ]
        self._schedule.save_audits(rows, prepared.batches)
        return [*under_way, *starting]

    def _postpone_costly(self, claims: list[Claim], now: int) -> list[Claim]:
        """Put back the audits that wait for cheaper gas; return the rest.

        An audit that an operator asked for does not wait.
        """
        if self._rails.gas_price_cap is None or not claims:
            return claims
        audited, uniforms = column(claims, "audited"), self._rng((2, len(claims)))
        waits, until = hold_for_gas(self._rails, now, self._auditor.gas_price(), audited, uniforms)
        waits &= column(claims, "overrides") & int(Override.ASKED) == 0
        waits &= ~column(claims, "checked").astype(np.bool_)  # a check costs no gas
        self._schedule.postpone(
            [
                {**_lease(claim), "due": int(later), "overrides": int(Override.GAS_PRICE)}
                for claim, wait, later in zip(claims, waits, until, strict=True)
                if wait
            ],
        )
        return [claim for claim, wait in zip(claims, waits, strict=True) if not wait]

    def _conclude(self, results: Sequence[tuple[Claim, AuditResult | Deferred]]) -> Tick:
        waiting = [(claim, result) for claim, result in results if isinstance(result, Deferred)]
        self._schedule.suspend(
            [
                {**_lease(claim), "due": deferred.at, "flight": deferred.pending.encode()}
                for claim, deferred in waiting
            ]
        )
        trouble = tuple(audit.trouble for _, audit in waiting if audit.trouble is not None)
        ended = [
            (_note_sample(claim, result), result)
            for claim, result in results
            if isinstance(result, AuditResult)
        ]
        if not ended:
            return Tick(waiting=len(waiting), trouble=trouble)
        now = self._clock()
        batch, conclusions = self._decider.conclude(ended, now)
        ours = set(self._schedule.conclude(conclusions))
        self._auditor.release([claim for claim, _ in ended if claim.id in ours])
        done = [(claim.overrides, result) for claim, result in ended if claim.id in ours]
        overrides, concluded = zip(*done, strict=True) if done else ((), ())
        tick = Tick(waiting=len(waiting), trouble=trouble, concluded=concluded, overrides=overrides)
        return tick.with_shadows(batch)


def _lease(claim: Claim) -> dict[str, int]:
    """Return what shows that a row is still ours."""
    return {"id": claim.id, "token": claim.token}


def _ask_for(claim: Claim, ratio: float, now: int) -> Claim:
    """Return the claim of an audit that an operator asked for, unless another is under way."""
    if claim.flight is not None:
        return claim
    return replace(
        claim, due=min(claim.due, now), ratio=ratio, overrides=claim.overrides | Override.ASKED
    )


def _note_cap(claim: Claim) -> Claim:
    return replace(claim, overrides=claim.overrides | Override.SAMPLE_CAP)


def _note_sample(claim: Claim, result: AuditResult) -> Claim:
    """Return the claim with the rails that changed a sample, which is drawn during the check."""
    detail = result.detail
    rails = detail.overrides if isinstance(detail, CheckDetail) else 0
    return replace(claim, overrides=claim.overrides | rails) if rails else claim
