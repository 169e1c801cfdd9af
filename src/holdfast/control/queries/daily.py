"""Totals over the audits of each day."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, literal_column, select

from holdfast.control.scheduling import guardrails
from holdfast.durations import DAY
from holdfast.model.detection import BLOCK_GAS, TRANSACTION_GAS
from holdfast.storage.schema import audits


@dataclass(frozen=True)
class Day:
    """What the audits came to that ended on a day in UTC."""

    start: int
    audits: int
    gas: float  # on the ledger; the local one takes none
    modelled_gas: float  # if each sampled block were checked there, as the simulator has it
    outcomes: dict[str, int]
    overrides: dict[str, int]  # by reason


def read_days(connection: Connection, starts: Sequence[int]) -> dict[int, Day]:
    """Return the totals of successive days, by the moment at which each starts."""
    # Written out, so that PostgreSQL sees one expression where it is selected and grouped by.
    start = audits.c.ended - audits.c.ended % literal_column(str(DAY))
    query = (
        select(
            start.label("start"),
            audits.c.outcome,
            audits.c.overrides,
            func.count().label("audits"),
            func.sum(audits.c.gas).label("gas"),
            func.sum(audits.c.samples).label("samples"),
        )
        .where(audits.c.ended >= starts[0], audits.c.ended < starts[-1] + DAY)
        .group_by(start, audits.c.outcome, audits.c.overrides)
    )
    by_day: dict[int, list[Any]] = defaultdict(list)
    for row in connection.execute(query):
        by_day[row.start].append(row)
    return {day: _day(day, by_day[day]) for day in starts}


def _day(start: int, rows: list[Any]) -> Day:
    outcomes, overrides = Counter[str](), Counter[str]()
    for row in rows:
        outcomes[row.outcome] += row.audits
        for reason in guardrails.override_names(row.overrides):
            overrides[reason] += row.audits
    gas = float(sum(row.gas for row in rows))
    samples = int(sum(row.samples for row in rows))
    modelled = float(TRANSACTION_GAS * outcomes.total() + BLOCK_GAS * samples)
    return Day(start, outcomes.total(), gas, modelled, dict(outcomes), dict(overrides))
