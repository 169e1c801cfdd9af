"""Coverage of checked holdings: what was read lately, and how much may be damaged all the same.

Figures are in the holding's own unit (packs, objects), and never summed with blocks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, case, func, select

from holdfast.control.queries.reports import last_report
from holdfast.durations import DAY
from holdfast.evidence.leaf import Outcome
from holdfast.model.damage_bound import most_damaged
from holdfast.storage.home_schema import checked_holdings
from holdfast.storage.schema import audits, check_groups, holdings

WITHIN_DAYS = (1, 7, 30)
BOUND_WITHIN = 30 * DAY  # for which a unit that was read counts, unless the owner asks for less
CONFIDENCE = 0.95
_WHOLE = b""  # names the one group of a holding whose tool chooses by itself what it reads


@dataclass(frozen=True)
class DamageBound:
    """How many units are damaged at most, at 95 %, by what was read.

    It is about the data as they were read, and says nothing about damage since then.
    """

    within: int  # milliseconds; what was read longer ago doesn't count
    read: int  # units
    damaged: int  # of these
    since: int | None  # when the first of them was read
    at_most: int | None  # damaged units; none if the tool chooses what it reads, as that is no draw
    share: float | None  # of all units


@dataclass(frozen=True)
class LastCheck:
    """The last check that read anything."""

    ended: int
    read: int  # units


@dataclass(frozen=True)
class Coverage:
    """What checks of a holding have verified. Shares are of its units."""

    holding: str
    kind: str
    address: str
    unit: str
    units: int
    bytes: int
    never: int  # units that no check has verified yet
    verified: dict[int, float]  # share, by the days within which they were found intact
    oldest: int | None  # milliseconds since the oldest was verified, or added; None at first
    verify_within: int | None  # milliseconds, if the owner asked for that
    behind: bool  # whether a unit is older than that
    chosen_by_tool: bool  # the tool chooses what it reads, so nobody knows which units it was
    bound: DamageBound
    last: LastCheck | None


def list_coverage(
    connection: Connection,
    now: int,
    names: Collection[str] | None = None,
    *,
    limit: int | None = None,
) -> list[Coverage]:
    """Return the coverage of all checked holdings by name, or of these."""
    query = _select(now).limit(limit)
    if names is not None:
        query = query.where(checked_holdings.c.name.in_(list(names)))
    rows = connection.execute(query).all()
    last = _last_checks(connection, [row.scheduled for row in rows])
    return [_coverage(connection, row, now, last.get(row.scheduled)) for row in rows]


def read_coverage(connection: Connection, now: int, name: str) -> Coverage | None:
    """Return the coverage of a checked holding, or None if it is none."""
    return next(iter(list_coverage(connection, now, [name])), None)


def _select(now: int) -> Select[Any]:
    record, group = checked_holdings.c, check_groups.c
    since = case((group.verified > group.added, group.verified), else_=group.added)
    window = func.coalesce(record.verify_within, BOUND_WITHIN)
    recent = (group.verified > 0) & (group.verified > now - window) & ~group.damaged

    def units(condition: ColumnElement[bool]) -> ColumnElement[int]:
        return func.coalesce(func.sum(case((condition, group.units), else_=0)), 0)

    columns = (
        func.coalesce(func.sum(group.units), 0).label("known"),
        units(group.verified == 0).label("never"),
        *(
            units((group.verified > now - days * DAY) & ~group.damaged).label(f"within_{days}")
            for days in WITHIN_DAYS
        ),
        units(recent).label("recent"),
        func.min(case((recent, group.verified))).label("first"),
        func.count(case((group.damaged, 1))).label("damaged"),
        func.coalesce(func.min(since), holdings.c.added).label("oldest"),
        func.count(case((group.name == _WHOLE, 1))).label("whole"),
    )
    of_holding = [*(record[name] for name in _OF_HOLDING), holdings.c.outcome, holdings.c.added]
    return (
        select(*of_holding, *columns)
        .outerjoin(check_groups, group.holding == record.scheduled)
        .outerjoin(holdings, holdings.c.id == record.scheduled)
        .group_by(*of_holding)
        .order_by(record.name)
    )


_OF_HOLDING = (
    *("name", "kind", "address", "unit", "units", "bytes", "verify_within", "scheduled"),
)


def _coverage(connection: Connection, row: Row[Any], now: int, last: LastCheck | None) -> Coverage:
    known, damage = int(row.known), _read_damage(connection, row)
    total = (known or row.units) + damage.gone
    oldest = None if row.oldest is None else max(now - row.oldest, 0)
    whole = bool(row.whole)
    within = row.verify_within
    return Coverage(
        holding=row.name,
        kind=row.kind,
        address=row.address,
        unit=row.unit,
        units=total,
        bytes=row.bytes,
        never=int(row.never) if known else row.units,
        verified={
            days: int(getattr(row, f"within_{days}")) / total if total else 0.0
            for days in WITHIN_DAYS
        },
        oldest=oldest,
        verify_within=within,
        behind=within is not None and oldest is not None and oldest > within,
        chosen_by_tool=whole,
        bound=_bound(row, total, damage, whole=whole),
        last=last,
    )


@dataclass(frozen=True)
class _Damage:
    """Units that are known to be damaged: those that are there, and those that are gone."""

    there: int = 0
    gone: int = 0


def _bound(row: Row[Any], units: int, damage: _Damage, *, whole: bool) -> DamageBound:
    damaged = damage.there + damage.gone
    read = min(int(row.recent) + damaged, units)
    within = BOUND_WITHIN if row.verify_within is None else row.verify_within
    drawn = not whole or read == units
    at_most = most_damaged(units, read, min(damaged, read), CONFIDENCE) if drawn else None
    share = at_most / units if at_most is not None and units else None
    return DamageBound(within, read, damaged, row.first, at_most, share)


def _read_damage(connection: Connection, row: Row[Any]) -> _Damage:
    """Return the damage that the last failed check named, as far as it is still there.

    A unit that is gone is in no group any more. It is missing until a check passes.
    """
    failed = row.outcome == Outcome.FAILED
    report = last_report(connection, row.scheduled) if row.damaged or failed else None
    if report is None:
        return _Damage(there=row.damaged)
    groups = select(check_groups.c.name, check_groups.c.damaged)
    mine = connection.execute(groups.where(check_groups.c.holding == row.scheduled))
    marked = {bytes(name): damaged for name, damaged in mine}
    there, gone = set(), set()
    for unit in report.damaged:
        is_marked = marked.get(unit.group.encode("utf-8", "surrogatepass"), marked.get(_WHOLE))
        if is_marked or (is_marked is False and failed and _WHOLE in marked):
            there.add(unit.name)
        elif is_marked is None and failed:
            gone.add(unit.name)
    return _Damage(max(len(there), row.damaged), len(gone))


def _last_checks(connection: Connection, ids: Collection[int | None]) -> Mapping[int, LastCheck]:
    listed = [id_ for id_ in ids if id_ is not None]
    newest = (
        select(audits.c.holding, func.max(audits.c.number).label("number"))
        .where(audits.c.holding.in_(listed), audits.c.samples > 0)
        .group_by(audits.c.holding)
        .subquery()
    )
    columns = (audits.c.holding, audits.c.ended, audits.c.samples)
    one = (audits.c.holding == newest.c.holding) & (audits.c.number == newest.c.number)
    query = select(*columns).join(newest, one)
    return {row.holding: LastCheck(row.ended, row.samples) for row in connection.execute(query)}
