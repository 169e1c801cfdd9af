"""A worker: takes what is due, has it audited, records it and decides what comes next.

Any number of workers may run, on any number of hosts: the schedule keeps them apart.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Any

import numpy as np

from holdfast.control import recorder
from holdfast.control.auditor import Auditor, Later, Result
from holdfast.control.policies import Decisions, Remembered, decide
from holdfast.control.rails import SECOND, Override, Rails, held
from holdfast.control.schedule import Claim, Conclusion, Schedule, column
from holdfast.control.telemetry import Telemetry
from holdfast.errors import StorageError
from holdfast.evidence import leaf
from holdfast.ledger import check
from holdfast.model.observation import HistoryConstants
from holdfast.policy.serving import Serving

# So many thirds of a lease: a worker that hangs must lose what it has in the end.
MOST_LENGTHENED = 30

Luck = Callable[[int], Any]  # so many uniform numbers in [0, 1)


@dataclass(frozen=True)
class Pace:
    """How much a worker takes on at once, and for how long it may be silent about it."""

    batch: int = 256
    lease: int = 120 * SECOND
    gather: int = 0  # how long what is due may wait for more to be settled with


@dataclass(frozen=True)
class Tick:
    """What a worker did in one go."""

    claimed: int = 0
    decided: int = 0
    held: int = 0
    waiting: int = 0
    trouble: tuple[str, ...] = ()  # with the ledger
    concluded: tuple[Result, ...] = ()
    overrides: tuple[int, ...] = ()  # of each that is concluded


class Worker:
    def __init__(
        self,
        schedule: Schedule,
        auditor: Auditor,
        policy: Serving,
        *,
        rails: Rails,
        constants: HistoryConstants,
        clock: Callable[[], int],
        luck: Luck,
        pace: Pace,
        timing: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._schedule, self._auditor, self._policy = schedule, auditor, policy
        self._rails, self._constants, self._pace = rails, constants, pace
        self._clock, self._luck, self._timing = clock, luck, timing
        self._named = leaf.Policy(policy.name, bytes.fromhex(policy.version))

    def tick(self) -> Tick:
        """Do what is due now, up to a batch of it."""
        now, pace = self._clock(), self._pace
        if pace.gather and not self._schedule.gathered(now, pace.gather, pace.batch):
            return Tick()
        token, claims = self._schedule.claim(now, pace.lease, pace.batch)
        if not claims:
            return Tick()
        new = [claim for claim in claims if not claim.decided]
        if new:
            self._schedule.decide(token, self._first_decisions(new, now))
        known = [claim for claim in claims if claim.decided]
        going = self._departed(token, known, now)
        with self._lease_kept(token):
            results = self._auditor.carry_out(going)
        return replace(
            self._concluded(token, [claim for claim, _ in going], results),
            claimed=len(claims),
            decided=len(new),
            held=len(known) - len(going),
        )

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
        waits, until = held(self._rails, now, self._auditor.gas_price(), column(claims, "audited"))
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
        self, token: int, claims: Sequence[Claim], results: Sequence[Result | Later]
    ) -> Tick:
        both = list(zip(claims, results, strict=True))
        waiting = [(claim.id, each) for claim, each in both if isinstance(each, Later)]
        if waiting:
            self._schedule.suspend(token, [(id_, each.at, each.flight) for id_, each in waiting])
        trouble = tuple(each.trouble for _, each in waiting if each.trouble is not None)
        ended = [(claim, each) for claim, each in both if isinstance(each, Result)]
        if not ended:
            return Tick(waiting=len(waiting), trouble=trouble)
        now = self._clock()
        ours = set(self._schedule.conclude(token, self._conclusions(ended, now)))
        done = [(claim.overrides, result) for claim, result in ended if claim.id in ours]
        overrides, concluded = zip(*done, strict=True) if done else ((), ())
        return Tick(waiting=len(waiting), trouble=trouble, concluded=concluded, overrides=overrides)

    def _conclusions(self, ended: Sequence[tuple[Claim, Result]], now: int) -> list[Conclusion]:
        claims = [claim for claim, _ in ended]
        results = [result for _, result in ended]
        before = self._telemetry(claims)
        telemetry = before.after(
            now,
            [result.outcome for result in results],
            (now - column(claims, "audited")) / self._rails.unit,
            np.array([result.latency for result in results]),
        )
        decisions = self._decided(claims, telemetry, now)
        conclusions = []
        for (claim, result), row in zip(
            ended, _rows(claims, telemetry, decisions, self._policy, now), strict=True
        ):
            at = recorder.moment(claim, result, now)
            row |= {"number": claim.number + 1, "audited": now, "blocks": result.challenge.blocks}
            row["decided"] = at
            body = recorder.audit_leaf(claim, result, self._named, self._rails, at)
            proof = None if result.proof is None else check.encode(result.proof)
            conclusions.append(
                Conclusion(
                    row,
                    recorder.audit_row(claim, result, now),
                    {"holding": claim.id, "body": body, "proof": proof},
                )
            )
        return conclusions

    def _first_decisions(self, claims: Sequence[Claim], now: int) -> list[dict[str, Any]]:
        telemetry = self._telemetry(claims)
        decisions = self._decided(claims, telemetry, now)
        return _rows(claims, telemetry, decisions, self._policy, now)

    def _telemetry(self, claims: Sequence[Claim]) -> Telemetry:
        return Telemetry.stored(
            [claim.history for claim in claims],
            self._constants,
            column(claims, "observed"),
            column(claims, "news").astype(np.bool_),
        )

    def _decided(self, claims: Sequence[Claim], telemetry: Telemetry, now: int) -> Decisions:
        remembered = Remembered(
            [claim.version for claim in claims], [claim.memory for claim in claims]
        )
        luck = self._luck(len(claims))
        with self._timing():
            return decide(self._policy, self._rails, now, telemetry, remembered, luck)


def _capped(claim: Claim) -> Claim:
    return replace(claim, overrides=claim.overrides | Override.SAMPLE_CAP)


def _rows(
    claims: Sequence[Claim], telemetry: Telemetry, decisions: Decisions, policy: Serving, now: int
) -> list[dict[str, Any]]:
    """Return what a decision changes in each holding's row."""
    plan = decisions.plan
    columns = {
        "id": [claim.id for claim in claims],
        "due": plan.due.tolist(),
        "history": telemetry.rows(),
        "observed": telemetry.observed.tolist(),
        "news": telemetry.news.tolist(),
        "version": [policy.version] * len(claims),
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
