"""The challenger: draws challenges, has them opened, asks nodes and has the answers settled.

The ledger hears of each audit by itself, or of all that are due together: which is cheaper, and
comes to the same. A node that can't be reached is asked again until the deadline: an outage is not
a loss. Only then does the ledger say that the time has run out, and the outcome whether anyone was
there.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from operator import itemgetter
from typing import Protocol

from holdfast.control.auditor import Departure, Later, Prepared, Result
from holdfast.control.flight import Flight
from holdfast.control.rails import SECOND
from holdfast.control.schedule import Claim
from holdfast.control.settlement import Going, Patience, settle_together
from holdfast.errors import LedgerError
from holdfast.ledger import check
from holdfast.ledger.interface import MOST_AT_ONCE, Batch, Entry, Ledger, batch_seed, fresh_seed
from holdfast.model.detection import samples
from holdfast.owner.audit import Subject, id_on
from holdfast.pdp import draw_challenge, target_of


class Settlement(StrEnum):
    """How the ledger hears of audits that are due together."""

    SINGLE = "single"
    BATCH = "batch"


class Fleet(Protocol):
    """Every holding by its name, and the ledger that it is registered on."""

    def subject(self, name: str) -> Subject: ...
    def ledger(self, name: str) -> Ledger: ...
    def gas_price(self) -> int: ...


class Challenger:
    def __init__(
        self,
        fleet: Fleet,
        batch: Callable[[bytes], Batch],
        *,
        sample_cap: int,
        patience: Patience,
        clock: Callable[[], int],
        seed: Callable[[], bytes],
        settlement: Settlement = Settlement.BATCH,
    ) -> None:
        """Make a challenger; `batch` returns one that was written down, by its seed."""
        self._fleet, self._batch = fleet, batch
        self._cap, self._patience = sample_cap, patience
        self._clock, self._seed = clock, seed
        self._together = MOST_AT_ONCE if settlement is Settlement.BATCH else 1

    def gas_price(self) -> int:
        return self._fleet.gas_price()

    def prepare(self, claims: Sequence[Claim]) -> Departure:
        """Draw fresh challenges over what the holdings have now, and compute their targets."""
        deadline = (self._clock() + self._patience.deadline) // SECOND
        of_ledger: dict[Ledger, list[Claim]] = {}
        for claim in claims:
            of_ledger.setdefault(self._fleet.ledger(claim.name), []).append(claim)
        prepared: dict[int, Prepared] = {}
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
                    prepared[claim_id] = Prepared(placed.encode(), capped)
                if seed:
                    words = tuple(word for word, *_ in drawn)
                    batches.append(Batch(ledger.sender, seed, deadline, words))
        return Departure([prepared[claim.id] for claim in claims], batches)

    def _drawn(
        self, claim: Claim, subject: Subject, seed: bytes, deadline: int
    ) -> tuple[Flight, bool]:
        inventory = subject.inventory
        wanted = int(samples(claim.ratio, inventory.blocks, inventory.blocks))
        challenge = draw_challenge(inventory, min(wanted, self._cap), seed=seed)
        target = target_of(subject.key, inventory, challenge)
        return Flight(claim.due, challenge, target, deadline), wanted > self._cap

    def carry_out(self, audits: Sequence[tuple[Claim, bytes]]) -> list[Result | Later]:
        """Carry out audits side by side; the ledger hears of one call after the other."""
        flights = [Flight.decode(flight) for _, flight in audits]
        seeds = dict.fromkeys(flight.batch for flight in flights if flight.batch)
        batches = {seed: self._batch(seed) for seed in seeds}
        going = []
        for (claim, _), flight in zip(audits, flights, strict=True):
            subject, ledger = self._fleet.subject(claim.name), self._fleet.ledger(claim.name)
            batch = batches[flight.batch] if flight.batch else None
            going.append(Going(subject, ledger, flight, batch, anew=claim.flight is None))
        opened: dict[bytes, int | Exception] = {}
        for each in going:
            each.open(self._clock(), opened)
        asked = [each for each in going if each.told is None]
        if len(asked) > 1:
            with ThreadPoolExecutor(min(self._patience.at_once, len(asked))) as pool:
                list(pool.map(lambda each: each.ask(self._clock), asked))
        elif asked:
            asked[0].ask(self._clock)
        for batch in batches.values():
            settle_together(batch, [each for each in going if each.batch is batch], self._clock())
        return [each.concluded(self._patience, self._clock()) for each in going]


def _entry(subject: Subject, flight: Flight) -> Entry:
    challenge, target = flight.challenge, check.target_address(flight.target)
    return Entry(target, subject.number, challenge.samples, challenge.inventory_hash[:4])


def _height(ledger: Ledger) -> int:
    try:
        return ledger.height()
    except LedgerError:
        return 0
