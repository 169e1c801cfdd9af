"""What checks that failed said: the damaged units, by name."""

from sqlalchemy import Connection, select

from holdfast.checkers import codec
from holdfast.checkers.interface import Report
from holdfast.storage.schema import audits


def last_report(connection: Connection, holding: int) -> Report | None:
    """Return what the last check of a holding that failed said."""
    newest = select(audits.c.report).where(audits.c.holding == holding, _HAS_REPORT)
    return _decode(connection.execute(newest.order_by(audits.c.number.desc()).limit(1)).scalar())


def read_report(connection: Connection, holding: int, number: int) -> Report | None:
    """Return what a check said, if it is one that failed."""
    one = (audits.c.holding == holding, audits.c.number == number, _HAS_REPORT)
    return _decode(connection.execute(select(audits.c.report).where(*one)).scalar())


_HAS_REPORT = audits.c.report.is_not(None)


def _decode(content: bytes | None) -> Report | None:
    if content is None:
        return None
    return codec.load(Report, bytes(content), "the report of a check")
