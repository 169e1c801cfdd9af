"""A worker: takes what is due, has it audited, records it and decides what comes next.

Any number of workers may run, on any number of hosts: the schedule keeps them apart.
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
from holdfast.control.policies.active import ActivePolicies, PolicyLoader
from holdfast.control.policies.shadow import (
    DecisionContext,
    ShadowResult,
    States,
    kept_states,
    remembered,
    shade,
)
from holdfast.control.scheduling.decisions import Decisions, Remembered, decide
from holdfast.control.scheduling.guardrails import DRAWS, SECOND, Override, Rails, held
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

# So many thirds of a lease: a worker that hangs must lose what it has in the end.
MOST_LENGTHENED = 30

Rng = Callable[[tuple[int, int]], FloatArray]  # uniform numbers in [0, 1), in that shape


def system_luck(shape: tuple[int, int]) -> FloatArray:
    """Return uniform numbers that nobody can foretell, not even from those that came before.

    A node sees the times of its audits, and from what NumPy's generators gave the rest follows.
    """
    words = np.frombuffer(os.urandom(8 * math.prod(shape)), np.uint64)
    return np.asarray((words >> np.uint64(11)) * 2.0**-53).reshape(shape)


@dataclass(frozen=True)
class Tick:
    """What a worker did in one go."""

    claimed: int = 0
    decided: int = 0
    held: int = 0
    waiting: int = 0
    trouble: tuple[str, ...] = ()  # with the ledger
    concluded: tuple[AuditResult, ...] = ()
    overrides: tuple[int, ...] = ()  # of each that is concluded
    shadowed: int = 0  # decisions that the challenger took, too
    agreed: int = 0  # and took alike
    shadow_trouble: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecisionBatch:
    """A batch of decisions: the champion's, and what shadows did beside it."""

    duty: ActivePolicies
    states: States
    decisions: Decisions
    shade: ShadowResult

    def told(self, tick: Tick) -> Tick:
        shade = self.shade
        return replace(
            tick,
            shadowed=tick.shadowed + shade.decisions,
            agreed=tick.agreed + shade.agreed,
            shadow_trouble=(*tick.shadow_trouble, *shade.trouble),
        )


class Worker:
    def __init__(
        self,
        schedule: Schedule,
        auditor: Auditor,
        roster: PolicyLoader,
        *,
        rails: Rails,
        constants: HistoryConstants,
        clock: Callable[[], int],
        luck: Rng,
        pace: Pace,
        timing: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._schedule, self._auditor, self._roster = schedule, auditor, roster
        self._rails, self._constants, self._pace = rails, constants, pace
        self._clock, self._luck, self._timing = clock, luck, timing

    def tick(self) -> Tick:
        """Do what is due now, up to a batch of it."""
        now, pace = self._clock(), self._pace
        waits = pace.gather and not self._schedule.gathered(now, pace.gather, pace.batch)
        token, claims = self._schedule.claim(now, pace.lease, pace.batch, under_way=bool(waits))
        if not claims:
            return Tick()
        new = [claim for claim in claims if not claim.decided]
        first = self._first_decisions(token, new, now) if new else None
        known = [claim for claim in claims if claim.decided]
        going = self._departed(token, known, now)
        with self._lease_kept(token):
            results = self._auditor.carry_out(going)
        tick = replace(
            self._concluded(token, [claim for claim, _ in going], results),
            claimed=len(claims),
            decided=len(new),
            held=len(known) - len(going),
        )
        return first.told(tick) if first else tick

    @contextmanager
    def _lease_kept(self, token: int) -> Iterator[None]:
        """Lengthen the lease while nodes take their time, unless they take it for ever."""
        over = Event()

        def keep() -> None:
            for _ in range(MOST_LENGTHENED):
                if over.wait(self._pace.lease / SECOND / 3):
                    return
                with suppress(StorageError):  # what is lost by it, the conclusion will tell
                    self._schedule.extend(token, self._clock() + self._pace.lease)

        keeper = Thread(target=keep, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()

    def _departed(self, token: int, claims: Sequence[Claim], now: int) -> list[tuple[Claim, bytes]]:
        """Write down the audits that begin now; return them with those already under way."""
        under_way = [(claim, claim.flight) for claim in claims if claim.flight is not None]
        due = [claim for claim in claims if claim.flight is None]
        due = self._affordable(token, due, now)
        if not due:
            return under_way
        departure = self._auditor.prepare(due)
        departing = [
            (_capped(claim) if prepared.capped else claim, prepared.flight)
            for claim, prepared in zip(due, departure.audits, strict=True)
        ]
        flights = [(claim.id, claim.overrides, flight) for claim, flight in departing]
        self._schedule.depart(token, flights, departure.batches)
        return [*under_way, *departing]

    def _affordable(self, token: int, claims: list[Claim], now: int) -> list[Claim]:
        """Put back what waits for cheaper gas; return the rest."""
        if self._rails.gas_price_cap is None or not claims:
            return claims
        audited, luck = column(claims, "audited"), self._luck((2, len(claims)))
        waits, until = held(self._rails, now, self._auditor.gas_price(), audited, luck)
        self._schedule.postpone(
            token,
            [
                (claim.id, int(later), int(Override.GAS_PRICE))
                for claim, wait, later in zip(claims, waits, until, strict=True)
                if wait
            ],
        )
        return [claim for claim, wait in zip(claims, waits, strict=True) if not wait]

    def _concluded(
        self, token: int, claims: Sequence[Claim], results: Sequence[AuditResult | Deferred]
    ) -> Tick:
        both = list(zip(claims, results, strict=True))
        waiting = [(claim.id, each) for claim, each in both if isinstance(each, Deferred)]
        if waiting:
            self._schedule.suspend(token, [(id_, each.at, each.flight) for id_, each in waiting])
        trouble = tuple(each.trouble for _, each in waiting if each.trouble is not None)
        ended = [(claim, each) for claim, each in both if isinstance(each, AuditResult)]
        if not ended:
            return Tick(waiting=len(waiting), trouble=trouble)
        now = self._clock()
        sitting, conclusions = self._conclusions(ended, now)
        ours = set(self._schedule.conclude(token, conclusions))
        done = [(claim.overrides, result) for claim, result in ended if claim.id in ours]
        overrides, concluded = zip(*done, strict=True) if done else ((), ())
        return sitting.told(
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
        sitting = self._decided(self._course(claims, numbers, blocks, now), telemetry)
        conclusions = []
        for (claim, result), row, beside in zip(
            ended, _rows(claims, telemetry, sitting, now), sitting.shade.beside, strict=True
        ):
            at = recorder.moment(claim, result, now)
            row |= {
                "number": claim.number + 1,
                "audited": now,
                "outcome": str(result.outcome),
                "blocks": result.challenge.blocks,
                "decided": at,
            }
            policy, shadow = self._roster.policy(claim.version), self._shadow(claim, sitting)
            body = recorder.audit_leaf(claim, result, policy, shadow, self._rails, at)
            proof = None if result.proof is None else check.encode(result.proof)
            conclusions.append(
                Conclusion(
                    row,
                    recorder.audit_row(claim, result, now),
                    {"holding": claim.id, "body": body, "proof": proof},
                    beside,
                )
            )
        return sitting, conclusions

    def _shadow(self, claim: Claim, sitting: DecisionBatch) -> leaf.Choice | None:
        """Return what the challenger had chosen when it was decided about this audit."""
        challenger = sitting.duty.challenger
        kept = None if challenger is None else sitting.states.get((claim.id, challenger))
        if challenger is None or kept is None or kept.number != claim.number:
            return None
        return leaf.Choice(self._roster.policy(challenger), GRID.action(kept.chosen))

    def _first_decisions(self, token: int, claims: Sequence[Claim], now: int) -> DecisionBatch:
        telemetry = self._telemetry(claims)
        blocks, numbers = column(claims, "blocks"), [claim.number for claim in claims]
        sitting = self._decided(self._course(claims, numbers, blocks, now), telemetry)
        beside = [each for some in sitting.shade.beside for each in some]
        self._schedule.decide(token, _rows(claims, telemetry, sitting, now), beside)
        return sitting

    def _telemetry(self, claims: Sequence[Claim]) -> Telemetry:
        return Telemetry.stored(
            [claim.history for claim in claims],
            self._constants,
            column(claims, "observed"),
            column(claims, "news").astype(np.bool_),
        )

    def _course(
        self, claims: Sequence[Claim], numbers: Sequence[int], blocks: IntArray, now: int
    ) -> DecisionContext:
        return DecisionContext(claims, numbers, blocks, self._rails.sample_cap, now)

    def _decided(self, course: DecisionContext, telemetry: Telemetry) -> DecisionBatch:
        duty = self._roster.now()
        states = kept_states(self._schedule.engine, course.claims, duty)
        luck = self._luck((DRAWS, len(course.claims)))

        def by(policy: Serving, own: Remembered, executed: IntArray | None = None) -> Decisions:
            return decide(policy, self._rails, course.now, telemetry, own, luck, executed)

        own = remembered(duty.champion.version, course.claims, states)
        with self._timing():
            decisions = by(duty.champion, own)
        return DecisionBatch(duty, states, decisions, shade(course, duty, decisions, states, by))


def _capped(claim: Claim) -> Claim:
    return replace(claim, overrides=claim.overrides | Override.SAMPLE_CAP)


def _rows(
    claims: Sequence[Claim], telemetry: Telemetry, sitting: DecisionBatch, now: int
) -> list[dict[str, Any]]:
    """Return what a decision changes in each holding's row."""
    decisions, version = sitting.decisions, sitting.duty.champion.version
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
