"""What checks that failed said: the damaged units, by name."""

from sqlalchemy import Connection, select

from holdfast.checkers import codec
from holdfast.checkers.interface import Report
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.storage.schema import audits, check_groups, holdings, leaves

MAX_LEAVES = 8  # of a holding, that responses may have put after its last check


def last_report(connection: Connection, holding: int) -> Report | None:
    """Return what the last check of a holding that failed said."""
    newest = select(audits.c.report).where(audits.c.holding == holding, _HAS_REPORT)
    return _decode(connection.execute(newest.order_by(audits.c.number.desc()).limit(1)).scalar())


def find_known_damage(connection: Connection, holding: int) -> Report | None:
    """Return what the last check that failed said, unless a later one found it intact."""
    marked = select(check_groups.c.name).where(check_groups.c.holding == holding)
    damaged = connection.execute(marked.where(check_groups.c.damaged).limit(1)).first()
    outcome = select(holdings.c.outcome).where(holdings.c.id == holding)
    failed = connection.execute(outcome).scalar() == Outcome.FAILED
    return last_report(connection, holding) if damaged or failed else None


def read_last_reason(connection: Connection, holding: int) -> str | None:
    """Return what the last check of a holding gave as its reason, if that is among the newest."""
    newest = select(leaves.c.body).where(leaves.c.holding == holding).order_by(leaves.c.id.desc())
    for body in connection.execute(newest.limit(MAX_LEAVES)).scalars():
        entry = leaf.decode(body)
        if isinstance(entry, leaf.StorageCheck):
            return entry.reason or None
    return None


def is_quarantined(connection: Connection, holding: int) -> bool:
    query = select(holdings.c.quarantined).where(holdings.c.id == holding)
    return bool(connection.execute(query).scalar())


_HAS_REPORT = audits.c.report.is_not(None)


def _decode(content: bytes | None) -> Report | None:
    if content is None:
        return None
    return codec.load(Report, bytes(content), "the report of a check")
