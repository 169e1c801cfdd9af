"""Sums over the audits of each day, of which those that are over are added up once.

A month of 10^5 audits takes 60 to 300 ms to add up on SQLite, a day of it 3. So the server adds
up those of a year by itself when it starts, a few at a time.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, func, literal_column, select

from holdfast.control.scheduling import guardrails
from holdfast.control.scheduling.guardrails import DAY, HOUR
from holdfast.model.detection import BLOCK_GAS, TRANSACTION_GAS
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits

MOST_DAYS = 366
FEW_DAYS = 7  # added up at once when looking back, so that nobody waits long for the next
SETTLED = HOUR  # after the end of a day nobody writes down an audit that ended in it


@dataclass(frozen=True)
class Day:
    """What the audits came to that ended on a day in UTC."""

    start: int
    audits: int
    gas: float  # on the ledger; the local one takes none
    modelled_gas: float  # if each sampled block were checked there, as the simulator has it
    outcomes: dict[str, int]
    overrides: dict[str, int]  # by reason


class Days:
    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self._engine, self._clock = engine, clock
        self._over: dict[int, Day] = {}
        self._lock = threading.Lock()

    def last(self, count: int) -> list[Day]:
        """Return the last days up to this one, the oldest first."""
        now = self._clock()
        today = now - now % DAY
        wanted = range(today - (min(count, MOST_DAYS) - 1) * DAY, today + 1, DAY)
        with self._lock:  # so that pages that come together add up once
            known = self._over | self._added_up([day for day in wanted if day not in self._over])
            self._over = {
                start: day for start, day in known.items() if start + DAY + SETTLED <= now
            }
        return [known[start] for start in wanted]

    def look_back(self, closing: Callable[[], bool] = lambda: False) -> None:
        """Add up a year, from today on backwards, in steps that keep nobody waiting."""
        for count in range(FEW_DAYS, MOST_DAYS + FEW_DAYS, FEW_DAYS):
            if closing():
                return
            self.last(count)

    def _added_up(self, missing: Sequence[int]) -> dict[int, Day]:
        """Add up days; those that follow each other are asked for together."""
        found: dict[int, Day] = {}
        ends = [at for at, day in enumerate(missing, 1) if day + DAY not in missing[at : at + 1]]
        for first, end in zip([0, *ends], ends, strict=False):
            found |= self._between(missing[first:end])
        return found

    def _between(self, wanted: Sequence[int]) -> dict[int, Day]:
        # Written out, so that PostgreSQL sees one expression where it is selected and grouped by.
        start = audits.c.ended - audits.c.ended % literal_column(str(DAY))
        query = (
            select(
                start.label("start"),
                audits.c.outcome,
                audits.c.overrides,
                func.count().label("times"),
                func.sum(audits.c.gas).label("gas"),
                func.sum(audits.c.samples).label("samples"),
            )
            .where(audits.c.ended >= wanted[0], audits.c.ended < wanted[-1] + DAY)
            .group_by(start, audits.c.outcome, audits.c.overrides)
        )
        with transaction(self._engine) as connection:
            rows = connection.execute(query).all()
        by_day: dict[int, list[Any]] = defaultdict(list)
        for row in rows:
            by_day[row.start].append(row)
        return {day: _day(day, by_day[day]) for day in wanted}


def _day(start: int, rows: list[Any]) -> Day:
    outcomes, overrides = Counter[str](), Counter[str]()
    for row in rows:
        outcomes[row.outcome] += row.times
        for reason in guardrails.names(row.overrides):
            overrides[reason] += row.times
    gas = float(sum(row.gas for row in rows))
    samples = int(sum(row.samples for row in rows))
    modelled = float(TRANSACTION_GAS * outcomes.total() + BLOCK_GAS * samples)
    return Day(start, outcomes.total(), gas, modelled, dict(outcomes), dict(overrides))
