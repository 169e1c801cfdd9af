"""The challenger and the settlement: opens challenges, asks nodes, brings answers to the ledger.

A node that can't be reached is asked again until the deadline: an outage is not a loss. Only then
does the ledger say that the time has run out, and the outcome whether anyone was there.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

from holdfast.control.auditor import Later, Prepared, Result
from holdfast.control.flight import Flight
from holdfast.control.rails import SECOND
from holdfast.control.schedule import Claim
from holdfast.control.telemetry import Outcome
from holdfast.errors import LedgerError, StorageError
from holdfast.evidence import leaf
from holdfast.evidence.form import plain
from holdfast.ledger.interface import Answer, Ledger, LedgerRefusedError, Reason
from holdfast.model.detection import samples
from holdfast.node.wire import NodeRefusedError
from holdfast.owner import audit
from holdfast.owner.audit import Finding, Silence, Subject
from holdfast.pdp import draw_challenge, target_of

OUTCOMES = {
    audit.Outcome.PASSED: Outcome.PASSED,
    audit.Outcome.FAILED: Outcome.FAILED,
    audit.Outcome.TIMEOUT: Outcome.TIMED_OUT,
}


@dataclass(frozen=True)
class Patience:
    """How long a node may take, and how often it is asked again."""

    deadline: int = 3600 * SECOND
    first_pause: int = 5 * SECOND
    longest_pause: int = 600 * SECOND
    at_once: int = 16  # nodes asked side by side


class Fleet(Protocol):
    """Every holding by its name, and the ledger that it is registered on."""

    def subject(self, name: str) -> Subject: ...
    def ledger(self, name: str) -> Ledger: ...
    def gas_price(self) -> int: ...


class Challenger:
    def __init__(
        self,
        fleet: Fleet,
        *,
        sample_cap: int,
        patience: Patience,
        clock: Callable[[], int],
        seed: Callable[[], bytes],
    ) -> None:
        self._fleet, self._cap, self._patience = fleet, sample_cap, patience
        self._clock, self._seed = clock, seed

    def gas_price(self) -> int:
        return self._fleet.gas_price()

    def prepare(self, claim: Claim) -> Prepared:
        """Draw a fresh challenge over what the holding has now, and compute its target."""
        subject = self._fleet.subject(claim.name)
        inventory = subject.inventory
        wanted = int(samples(claim.ratio, inventory.blocks, inventory.blocks))
        challenge = draw_challenge(inventory, min(wanted, self._cap), seed=self._seed())
        target = target_of(subject.key, inventory, challenge)
        deadline = (self._clock() + self._patience.deadline) // SECOND
        try:
            since = self._fleet.ledger(claim.name).height()
        except LedgerError:
            since = 0
        flight = Flight(claim.due, challenge, target, deadline, since)
        return Prepared(flight.encode(), wanted > self._cap)

    def carry_out(self, audits: Sequence[tuple[Claim, bytes]]) -> list[Result | Later]:
        """Carry out audits side by side; the ledger hears of one after the other."""
        going = [_Going(self._fleet, claim, Flight.decode(flight)) for claim, flight in audits]
        for each in going:
            each.open(self._clock())
        asked = [each for each in going if each.told is None]
        if len(asked) > 1:
            with ThreadPoolExecutor(min(self._patience.at_once, len(asked))) as pool:
                list(pool.map(lambda each: each.ask(self._clock), asked))
        elif asked:
            asked[0].ask(self._clock)
        return [each.concluded(self._patience, self._clock()) for each in going]


class _Going:
    """One audit between its departure and its end."""

    def __init__(self, fleet: Fleet, claim: Claim, flight: Flight) -> None:
        self._subject, self._ledger = fleet.subject(claim.name), fleet.ledger(claim.name)
        self._flight, self._question = flight, flight.question
        self._taken_up = claim.flight is not None
        self._answered: int | None = None
        self._ended: Finding | None = None
        self.told: Answer | Silence | LedgerError | LedgerRefusedError | None = None

    def open(self, now: int) -> None:
        """Open the challenge, or find what became of it if it is not open any more.

        A ledger forgets a challenge with its verdict, and would take it a second time: what a
        crash has interrupted may have its verdict already.
        """
        flight = self._flight
        try:
            if self._taken_up and not flight.opened:
                self._ended = self._found()
            if self._ended is not None:
                return
            if now > flight.deadline * SECOND:
                self.told = Silence("the deadline passed", flight.reached)
            elif not flight.opened:
                audit.open_on(self._ledger, self._subject, self._question)
                self._flight = replace(flight, opened=True)
        except (LedgerError, LedgerRefusedError) as error:
            self.told = error

    def ask(self, clock: Callable[[], int]) -> None:
        flight, sent = self._flight, clock()
        try:
            self.told = audit.ask(self._ledger, self._subject, self._question)
        except NodeRefusedError as error:  # it has another inventory than ours
            self.told = Silence(str(error))
        self._answered = clock()
        self._flight = replace(flight, sent=sent, tries=flight.tries + 1)

    def concluded(self, patience: Patience, now: int) -> Result | Later:
        try:
            if isinstance(self.told, Answer):
                answer, told = self.told, self._settled(self.told)
                if isinstance(told, Finding):
                    return self._result(told, answer)
                self.told = told
            if isinstance(self.told, Silence):
                return self._without_answer(self.told, patience, now)
        except (LedgerError, LedgerRefusedError) as error:
            self.told = error
        return self._again(str(self.told), patience, now)

    def _settled(self, answer: Answer) -> Finding | Silence:
        if self._ended is not None:
            return self._ended
        try:
            return audit.settle(self._ledger, self._subject, self._question, answer)
        except LedgerRefusedError as error:
            if error.reason is not Reason.UNKNOWN:
                raise
            found = self._found()  # a crash kept us from hearing of it
            if found is not None:
                return found
            self._flight = replace(self._flight, opened=False)  # a reorganisation undid it
            return Silence(str(error))

    def _without_answer(self, silence: Silence, patience: Patience, now: int) -> Result | Later:
        flight = replace(self._flight, reached=self._flight.reached or silence.reached)
        self._flight = flight
        if now <= flight.deadline * SECOND:
            return self._again(silence.reason, patience, now)
        try:
            ended = self._ended or audit.expire(
                self._ledger, self._subject, self._question, silence
            )
        except LedgerRefusedError as error:
            if error.reason is Reason.EARLY:  # a chain's clock stands still between blocks
                return self._again(silence.reason, patience, now)
            if error.reason is not Reason.UNKNOWN:
                raise
            found = self._found()
            if found is None:
                return self._result(None, None, Outcome.UNKNOWN, "it was never opened in time")
            ended = found
        if ended.outcome is audit.Outcome.PASSED:
            lost = "it passed on the ledger, but an interruption lost its proof"
            return self._result(ended, None, Outcome.UNKNOWN, lost)
        if ended.outcome is audit.Outcome.TIMEOUT and not flight.reached:
            return self._result(ended, None, Outcome.OFFLINE, flight.reason or silence.reason)
        return self._result(ended, None, reason=flight.reason or silence.reason)

    def _found(self) -> Finding | None:
        """Return the verdict that the ledger has already."""
        return audit.verdict_on(self._ledger, self._subject, self._question, self._flight.since)

    def _again(self, reason: str, patience: Patience, now: int) -> Later:
        flight = replace(self._flight, reason=plain(reason))
        pause = min(patience.first_pause << min(flight.tries, 20), patience.longest_pause)
        last = flight.deadline * SECOND + SECOND
        at = min(now + pause, last) if now < last else now + pause
        trouble = str(self.told) if isinstance(self.told, LedgerError) else None
        return Later(at, flight.encode(), trouble)

    def _result(
        self,
        ended: Finding | None,
        answer: Answer | None,
        outcome: Outcome | None = None,
        reason: str = "",
    ) -> Result:
        domain, subject, flight = self._ledger.domain, self._subject, self._flight
        if outcome is None:
            if ended is None:
                raise StorageError("an audit ended without an outcome")
            outcome = OUTCOMES[ended.outcome]
        return Result(
            outcome=outcome,
            reason=plain(reason),
            due=flight.due,
            holding=leaf.Holding(
                domain.chain,
                domain.contract,
                audit.id_on(self._ledger, subject),
                subject.key.public.id,
                subject.address,
            ),
            challenge=flight.challenge,
            target=flight.target.point,
            opening=leaf.Opening(self._question.name, flight.deadline * SECOND, None),
            sent=flight.sent,
            answered=None if answer is None else self._answered,
            proof=None if answer is None else answer.proof,
            signature=None if answer is None else answer.signature,
            verdict=None
            if ended is None
            else leaf.Transaction(ended.transaction, ended.block, ended.gas),
        )
