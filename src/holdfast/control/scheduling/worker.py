"""A worker: claims due holdings, has them audited, records the results and decides what is next.

Any number of workers may run, on any number of hosts: the schedule gives each its own holdings.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Any

import numpy as np

from holdfast.control.audits import recorder
from holdfast.control.audits.types import Auditor, AuditResult, Deferred
from holdfast.control.evidence.leaves import leaf_row
from holdfast.control.policies.active import ActivePolicies, PolicyLoader
from holdfast.control.policies.shadow import (
    DecisionContext,
    ShadowResult,
    memory_of,
    read_shadow_states,
    run_shadows,
)
from holdfast.control.policies.shadow_states import States
from holdfast.control.scheduling.decisions import Decisions, StoredMemory, decide
from holdfast.control.scheduling.guardrails import DRAWS, SECOND, Override, Rails, hold_for_gas
from holdfast.control.scheduling.schedule import Claim, Conclusion, Schedule, column
from holdfast.control.scheduling.telemetry import Telemetry
from holdfast.control.settings.models import Pace
from holdfast.errors import StorageError
from holdfast.evidence import leaf
from holdfast.ledger import check
from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.observation import HistoryConstants
from holdfast.policy.serving import Serving

# Each extends a lease by a third: a worker that hangs must lose what it has in the end.
MAX_EXTENSIONS = 30

Rng = Callable[[tuple[int, int]], FloatArray]  # uniform numbers in [0, 1), in that shape


def system_rng(shape: tuple[int, int]) -> FloatArray:
    """Return uniform numbers that nobody can predict, not even from earlier ones.

    A node sees the times of its audits, and could predict NumPy's generators from them.
    """
    words = np.frombuffer(os.urandom(8 * math.prod(shape)), np.uint64)
    return np.asarray((words >> np.uint64(11)) * 2.0**-53).reshape(shape)


@dataclass(frozen=True)
class Tick:
    """What a worker did in one tick."""

    claimed: int = 0
    decided: int = 0
    held: int = 0
    waiting: int = 0
    trouble: tuple[str, ...] = ()  # with the ledger
    concluded: tuple[AuditResult, ...] = ()
    overrides: tuple[int, ...] = ()  # of each concluded audit
    shadowed: int = 0  # decisions that the challenger took, too
    agreed: int = 0  # and took the same way
    shadow_trouble: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecisionBatch:
    """A batch of decisions: the champion's, and what shadows did beside it."""

    active: ActivePolicies
    states: States
    decisions: Decisions
    shadows: ShadowResult

    def add_to(self, tick: Tick) -> Tick:
        shadows = self.shadows
        return replace(
            tick,
            shadowed=tick.shadowed + shadows.decisions,
            agreed=tick.agreed + shadows.agreed,
            shadow_trouble=(*tick.shadow_trouble, *shadows.trouble),
        )


class Worker:
    def __init__(
        self,
        schedule: Schedule,
        auditor: Auditor,
        policies: PolicyLoader,
        *,
        rails: Rails,
        constants: HistoryConstants,
        clock: Callable[[], int],
        rng: Rng,
        pace: Pace,
        timing: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._schedule, self._auditor, self._policies = schedule, auditor, policies
        self._rails, self._constants, self._pace = rails, constants, pace
        self._clock, self._rng, self._timing = clock, rng, timing

    def tick(self) -> Tick:
        """Do what is due now, up to a batch of it."""
        now, pace = self._clock(), self._pace
        waits = pace.gather and not self._schedule.has_batch(now, pace.gather, pace.batch)
        token, claims = self._schedule.claim(now, pace.lease, pace.batch, under_way=bool(waits))
        if not claims:
            return Tick()
        new = [claim for claim in claims if not claim.decided]
        first = self._first_decisions(token, new, now) if new else None
        known = [claim for claim in claims if claim.decided]
        audits = self._start_audits(token, known, now)
        with self._extend_leases(token):
            results = self._auditor.carry_out(audits)
        tick = replace(
            self._conclude(token, [claim for claim, _ in audits], results),
            claimed=len(claims),
            decided=len(new),
            held=len(known) - len(audits),
        )
        return first.add_to(tick) if first else tick

    @contextmanager
    def _extend_leases(self, token: int) -> Iterator[None]:
        """Extend the leases while nodes take their time, up to a limit."""
        over = Event()

        def extend() -> None:
            for _ in range(MAX_EXTENSIONS):
                if over.wait(self._pace.lease / SECOND / 3):
                    return
                with suppress(StorageError):  # the conclusion notices a lost lease
                    self._schedule.extend(token, self._clock() + self._pace.lease)

        thread = Thread(target=extend, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _start_audits(
        self, token: int, claims: Sequence[Claim], now: int
    ) -> list[tuple[Claim, bytes]]:
        """Save the audits that begin now; return them with those already under way."""
        under_way = [(claim, claim.flight) for claim in claims if claim.flight is not None]
        due = [claim for claim in claims if claim.flight is None]
        due = self._postpone_costly(token, due, now)
        if not due:
            return under_way
        prepared = self._auditor.prepare(due)
        starting = [
            (_note_cap(claim) if audit.capped else claim, audit.flight)
            for claim, audit in zip(due, prepared.audits, strict=True)
        ]
        flights = [(claim.id, claim.overrides, flight) for claim, flight in starting]
        self._schedule.save_audits(token, flights, prepared.batches)
        return [*under_way, *starting]

    def _postpone_costly(self, token: int, claims: list[Claim], now: int) -> list[Claim]:
        """Put back the audits that wait for cheaper gas; return the rest."""
        if self._rails.gas_price_cap is None or not claims:
            return claims
        audited, uniforms = column(claims, "audited"), self._rng((2, len(claims)))
        waits, until = hold_for_gas(self._rails, now, self._auditor.gas_price(), audited, uniforms)
        self._schedule.postpone(
            token,
            [
                (claim.id, int(later), int(Override.GAS_PRICE))
                for claim, wait, later in zip(claims, waits, until, strict=True)
                if wait
            ],
        )
        return [claim for claim, wait in zip(claims, waits, strict=True) if not wait]

    def _conclude(
        self, token: int, claims: Sequence[Claim], results: Sequence[AuditResult | Deferred]
    ) -> Tick:
        pairs = list(zip(claims, results, strict=True))
        waiting = [(claim.id, result) for claim, result in pairs if isinstance(result, Deferred)]
        if waiting:
            rows = [(id_, deferred.at, deferred.flight) for id_, deferred in waiting]
            self._schedule.suspend(token, rows)
        trouble = tuple(audit.trouble for _, audit in waiting if audit.trouble is not None)
        ended = [(claim, result) for claim, result in pairs if isinstance(result, AuditResult)]
        if not ended:
            return Tick(waiting=len(waiting), trouble=trouble)
        now = self._clock()
        batch, conclusions = self._conclusions(ended, now)
        ours = set(self._schedule.conclude(token, conclusions))
        done = [(claim.overrides, result) for claim, result in ended if claim.id in ours]
        overrides, concluded = zip(*done, strict=True) if done else ((), ())
        return batch.add_to(
            Tick(waiting=len(waiting), trouble=trouble, concluded=concluded, overrides=overrides)
        )

    def _conclusions(
        self, ended: Sequence[tuple[Claim, AuditResult]], now: int
    ) -> tuple[DecisionBatch, list[Conclusion]]:
        claims = [claim for claim, _ in ended]
        results = [result for _, result in ended]
        before = self._telemetry(claims)
        telemetry = before.after(
            now,
            [result.outcome for result in results],
            (now - column(claims, "audited")) / self._rails.unit,
            np.array([result.latency for result in results]),
        )
        blocks = np.array([result.challenge.blocks for result in results])
        numbers = [claim.number + 1 for claim in claims]
        batch = self._decide(self._context(claims, numbers, blocks, now), telemetry)
        conclusions = []
        for (claim, result), row, shadows in zip(
            ended, _rows(claims, telemetry, batch, now), batch.shadows.records, strict=True
        ):
            at = recorder.end_time(claim, result, now)
            row |= {
                "number": claim.number + 1,
                "audited": now,
                "outcome": str(result.outcome),
                "blocks": result.challenge.blocks,
                "decided": at,
            }
            policy, shadow = self._policies.policy(claim.version), self._shadow(claim, batch)
            body = recorder.audit_leaf(claim, result, policy, shadow, self._rails, at)
            proof = None if result.proof is None else check.encode(result.proof)
            conclusions.append(
                Conclusion(
                    row,
                    recorder.audit_row(claim, result, now),
                    leaf_row(body, claim.id, proof),
                    shadows,
                )
            )
        return batch, conclusions

    def _shadow(self, claim: Claim, batch: DecisionBatch) -> leaf.Choice | None:
        """Return what the challenger chose when this audit was decided on."""
        challenger = batch.active.challenger
        state = None if challenger is None else batch.states.get((claim.id, challenger))
        if challenger is None or state is None or state.number != claim.number:
            return None
        return leaf.Choice(self._policies.policy(challenger), GRID.action(state.chosen))

    def _first_decisions(self, token: int, claims: Sequence[Claim], now: int) -> DecisionBatch:
        telemetry = self._telemetry(claims)
        blocks, numbers = column(claims, "blocks"), [claim.number for claim in claims]
        batch = self._decide(self._context(claims, numbers, blocks, now), telemetry)
        records = [record for records in batch.shadows.records for record in records]
        self._schedule.decide(token, _rows(claims, telemetry, batch, now), records)
        return batch

    def _telemetry(self, claims: Sequence[Claim]) -> Telemetry:
        return Telemetry.stored(
            [claim.history for claim in claims],
            self._constants,
            column(claims, "observed"),
            column(claims, "news").astype(np.bool_),
        )

    def _context(
        self, claims: Sequence[Claim], numbers: Sequence[int], blocks: IntArray, now: int
    ) -> DecisionContext:
        return DecisionContext(claims, numbers, blocks, self._rails.sample_cap, now)

    def _decide(self, context: DecisionContext, telemetry: Telemetry) -> DecisionBatch:
        active = self._policies.now()
        states = read_shadow_states(self._schedule.engine, context.claims, active)
        uniforms = self._rng((DRAWS, len(context.claims)))

        def by(policy: Serving, own: StoredMemory, executed: IntArray | None = None) -> Decisions:
            return decide(policy, self._rails, context.now, telemetry, own, uniforms, executed)

        own = memory_of(active.champion.version, context.claims, states)
        with self._timing():
            decisions = by(active.champion, own)
        shadows = run_shadows(context, active, decisions, states, by)
        return DecisionBatch(active, states, decisions, shadows)


def _note_cap(claim: Claim) -> Claim:
    return replace(claim, overrides=claim.overrides | Override.SAMPLE_CAP)


def _rows(
    claims: Sequence[Claim], telemetry: Telemetry, batch: DecisionBatch, now: int
) -> list[dict[str, Any]]:
    """Return what a decision changes in each holding's row."""
    decisions, version = batch.decisions, batch.active.champion.version
    plan = decisions.plan
    columns = {
        "id": [claim.id for claim in claims],
        "due": plan.due.tolist(),
        "history": telemetry.rows(),
        "observed": telemetry.observed.tolist(),
        "news": telemetry.news.tolist(),
        "version": [version] * len(claims),
        "memory": [row.tobytes() for row in decisions.memory],
        "decided": [now] * len(claims),
        "observation": [row.tobytes() for row in decisions.observation],
        "chosen": decisions.chosen.tolist(),
        "interval": plan.interval.tolist(),
        "ratio": plan.ratio.tolist(),
        "overrides": plan.overrides.tolist(),
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
