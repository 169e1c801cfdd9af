"""Coverage of checked holdings: how much was verified lately, and how old the oldest unit is."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, func, select

from holdfast.durations import DAY
from holdfast.storage.home_schema import checked_holdings
from holdfast.storage.schema import check_groups, holdings

WITHIN_DAYS = (1, 7, 30)


@dataclass(frozen=True)
class Coverage:
    """What checks of a holding have verified. Shares are of its units."""

    holding: str
    kind: str
    unit: str
    units: int
    never: int  # units that no check has verified yet
    verified: dict[int, float]  # share, by the days within which they were found intact
    oldest: int | None  # milliseconds since the oldest was verified, or added; None at first
    verify_within: int | None  # milliseconds, if the owner asked for that

    @property
    def behind(self) -> bool:
        """Whether a unit is older than it should be."""
        if self.verify_within is None or self.oldest is None:
            return False
        return self.oldest > self.verify_within


def list_coverage(
    connection: Connection, now: int, names: Collection[str] | None = None
) -> list[Coverage]:
    """Return the coverage of all checked holdings by name, or of these."""
    record, group = checked_holdings.c, check_groups.c
    since = case((group.verified > group.added, group.verified), else_=group.added)

    def units(condition: ColumnElement[bool]) -> ColumnElement[int]:
        return func.coalesce(func.sum(case((condition, group.units), else_=0)), 0)

    columns = (
        func.coalesce(func.sum(group.units), 0).label("units"),
        units(group.verified == 0).label("never"),
        *(
            units((group.verified > now - days * DAY) & ~group.damaged).label(f"within_{days}")
            for days in WITHIN_DAYS
        ),
        func.coalesce(func.min(since), holdings.c.added).label("oldest"),
    )
    of_holding = (record.name, record.kind, record.unit, record.verify_within, holdings.c.added)
    query = (
        select(*of_holding, record.units.label("listed"), *columns)
        .outerjoin(check_groups, group.holding == record.scheduled)
        .outerjoin(holdings, holdings.c.id == record.scheduled)
        .group_by(*of_holding, record.units)
        .order_by(record.name)
    )
    if names is not None:
        query = query.where(record.name.in_(list(names)))
    return [
        Coverage(
            holding=row.name,
            kind=row.kind,
            unit=row.unit,
            units=int(row.units) or row.listed,
            never=int(row.never) if row.units else row.listed,
            verified={
                days: int(getattr(row, f"within_{days}")) / int(row.units) if row.units else 0.0
                for days in WITHIN_DAYS
            },
            oldest=None if row.oldest is None else max(now - row.oldest, 0),
            verify_within=row.verify_within,
        )
        for row in connection.execute(query)
    ]
