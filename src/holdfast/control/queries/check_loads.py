"""What checks of each holding read lately, and how much they are to read next."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from holdfast.durations import DAY
from holdfast.storage.home_schema import checked_holdings
from holdfast.storage.schema import audits, check_groups, holdings

MEASURED_WITHIN = 90 * DAY  # for which checks that ended say what a unit costs
_WHOLE = b""  # names the one group of a holding whose tool chooses by itself what it reads


@dataclass(frozen=True)
class CheckLoad:
    """A checked holding, the decision about its next check, and sums over its last checks."""

    name: str
    kind: str
    unit: str
    units: int
    bytes: int
    verify_within: int | None
    interval: int  # 0 before the first decision
    ratio: float
    read: int  # units
    read_bytes: int
    requests: int
    whole: bool  # whether the tool chooses what it reads


def list_loads(connection: Connection, now: int) -> list[CheckLoad]:
    """Return all checked holdings by name."""
    recent = (audits.c.checked, audits.c.ended > now - MEASURED_WITHIN, audits.c.samples > 0)
    sums = (
        func.sum(audits.c.samples).label("read"),
        func.sum(audits.c.read_bytes).label("read_bytes"),
        func.sum(audits.c.requests).label("requests"),
    )
    measured = select(audits.c.holding, *sums).where(*recent).group_by(audits.c.holding).subquery()
    whole = select(check_groups.c.holding).where(check_groups.c.name == _WHOLE).subquery()
    record = checked_holdings.c
    query = (
        select(record.name, record.kind, record.unit, record.units, record.bytes)
        .add_columns(record.verify_within, holdings.c.interval, holdings.c.ratio)
        .add_columns(measured.c.read, measured.c.read_bytes, measured.c.requests)
        .add_columns(whole.c.holding.is_not(None).label("whole"))
        .outerjoin(holdings, holdings.c.id == record.scheduled)
        .outerjoin(measured, measured.c.holding == record.scheduled)
        .outerjoin(whole, whole.c.holding == record.scheduled)
        .order_by(record.name)
    )
    return [
        CheckLoad(
            row.name,
            row.kind,
            row.unit,
            row.units,
            row.bytes,
            row.verify_within,
            row.interval or 0,
            row.ratio or 0.0,
            int(row.read or 0),
            int(row.read_bytes or 0),
            int(row.requests or 0),
            whole=row.whole,
        )
        for row in connection.execute(query)
    ]
