"""Audits that have ended: all, of a holding, of an outcome, or those that a guardrail changed."""

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, RowMapping, func, select, tuple_

from holdfast.control.queries.names import name_of, unit_of
from holdfast.control.scheduling import guardrails
from holdfast.evidence.leaf import Outcome
from holdfast.storage.home_schema import checked_holdings
from holdfast.storage.schema import audits


@dataclass(frozen=True)
class AuditRow:
    id: int
    holding: int
    name: str
    number: int  # of the holding's audits
    due: int
    ended: int
    outcome: str
    interval: int
    ratio: float
    samples: int  # blocks, or units
    unit: str
    overrides: list[str]
    latency: float  # seconds until the node's answer
    gas: float
    checked: bool  # by a tool: samples are units, and these are its costs
    read_bytes: int
    requests: int
    lasted: int  # milliseconds


_ELSEWHERE = ("name", "unit")  # columns of other tables


class Mark(NamedTuple):
    """Where a page of audits ended."""

    order: int  # when the audit ended; for the audits of one holding, its number
    id: int


@dataclass(frozen=True)
class AuditFilter:
    holding: int | None = None
    outcome: Outcome | None = None
    overridden: bool = False  # only audits that a guardrail changed
    since: int | None = None
    until: int | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        conditions: list[ColumnElement[bool]] = []
        if self.holding is not None:
            conditions.append(audits.c.holding == self.holding)
        if self.outcome is not None:
            conditions.append(audits.c.outcome == str(self.outcome))
        if self.overridden:
            conditions.append(audits.c.overrides != 0)
        if self.since is not None:
            conditions.append(audits.c.ended >= self.since)
        if self.until is not None:
            conditions.append(audits.c.ended < self.until)
        return conditions


def list_audits(
    connection: Connection, wanted: AuditFilter, *, after: Mark | None = None, limit: int
) -> tuple[list[AuditRow], Mark | None]:
    """Return a page of audits, the newest first, and where the next page begins."""
    # A holding's audits end in the order of their numbers, by which they have an index.
    column = audits.c.ended if wanted.holding is None else audits.c.number
    conditions = wanted.conditions()
    if after is not None:
        conditions.append(tuple_(column, audits.c.id) < tuple_(*after))
    columns = (audits.c[name] for name in AuditRow.__dataclass_fields__ if name not in _ELSEWHERE)
    query = (
        select(*columns, name_of(audits.c.holding), unit_of(audits.c.checked).label("unit"))
        .outerjoin(checked_holdings, checked_holdings.c.scheduled == audits.c.holding)
        .where(*conditions)
        .order_by(column.desc(), audits.c.id.desc())
        .limit(limit + 1)
    )
    rows = connection.execute(query).mappings().all()
    last = rows[limit - 1] if len(rows) > limit else None
    mark = None if last is None else Mark(last[column.name], last["id"])
    return [_audit(row) for row in rows[:limit]], mark


class ObservedAudit(NamedTuple):
    """What the belief about a node takes from an audit."""

    number: int
    ended: int
    outcome: str
    samples: int
    interval: int


def last_audits(connection: Connection, holding: int, limit: int) -> tuple[ObservedAudit, ...]:
    """Return the last audits of a holding, the oldest first."""
    query = select(*(audits.c[name] for name in ObservedAudit._fields))
    newest = query.where(audits.c.holding == holding).order_by(audits.c.number.desc())
    rows = connection.execute(newest.limit(limit)).all()
    return tuple(ObservedAudit(*row) for row in reversed(rows))


def lowest_gas(connection: Connection) -> float | None:
    """Return the gas of the cheapest audit that passed, if any did."""
    passed = (audits.c.outcome == Outcome.PASSED, ~audits.c.checked)  # a check takes none
    query = select(func.min(audits.c.gas)).where(*passed)
    return connection.execute(query).scalar()


def _audit(row: RowMapping) -> AuditRow:
    return AuditRow(**{**row, "overrides": guardrails.override_names(row["overrides"])})
