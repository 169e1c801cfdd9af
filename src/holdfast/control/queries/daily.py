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
class CheckCosts:
    """What checks of storage without a node cost."""

    checks: int = 0
    read_bytes: int = 0
    requests: int = 0
    lasted: int = 0  # milliseconds, one check after the other

    def plus(self, other: "CheckCosts") -> "CheckCosts":
        return CheckCosts(
            self.checks + other.checks,
            self.read_bytes + other.read_bytes,
            self.requests + other.requests,
            self.lasted + other.lasted,
        )


def read_check_costs(connection: Connection, since: int, until: int) -> CheckCosts:
    """Return what the checks cost that ended in this time."""
    ended = (audits.c.checked, audits.c.ended >= since, audits.c.ended < until)
    row = connection.execute(select(*_CHECK_SUMS).where(*ended)).one()
    return _check_costs(row)


@dataclass(frozen=True)
class Day:
    """What the audits came to that ended on a day in UTC."""

    start: int
    audits: int
    gas: float  # on the ledger; the local one takes none
    modelled_gas: float  # if each sampled block were checked there, as the simulator has it
    outcomes: dict[str, int]
    overrides: dict[str, int]  # by reason
    checks: "CheckCosts"  # of those by tools, which take no gas


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
    # Checks have an index of their own: where there are none, this reads nothing.
    ended = (audits.c.checked, audits.c.ended >= starts[0], audits.c.ended < starts[-1] + DAY)
    units = func.sum(audits.c.samples).label("samples")
    checked = select(start.label("start"), *_CHECK_SUMS, units).where(*ended).group_by(start)
    checks = {row.start: row for row in connection.execute(checked)}
    return {day: _day(day, by_day[day], checks.get(day)) for day in starts}


_CHECK_SUMS = (
    func.count().label("checks"),
    func.sum(audits.c.read_bytes).label("read_bytes"),
    func.sum(audits.c.requests).label("requests"),
    func.sum(audits.c.lasted).label("lasted"),
)


def _check_costs(row: Any) -> CheckCosts:
    sums = (row.checks, row.read_bytes, row.requests, row.lasted)
    return CheckCosts(*(int(value or 0) for value in sums))


def _day(start: int, rows: list[Any], checked: Any) -> Day:
    outcomes, overrides = Counter[str](), Counter[str]()
    for row in rows:
        outcomes[row.outcome] += row.audits
        for reason in guardrails.override_names(row.overrides):
            overrides[reason] += row.audits
    gas = float(sum(row.gas for row in rows))
    checks = CheckCosts() if checked is None else _check_costs(checked)
    proofs = outcomes.total() - checks.checks
    samples = int(sum(row.samples for row in rows)) - int(checked.samples if checked else 0)
    modelled = float(TRANSACTION_GAS * proofs + BLOCK_GAS * samples)
    return Day(start, outcomes.total(), gas, modelled, dict(outcomes), dict(overrides), checks)
