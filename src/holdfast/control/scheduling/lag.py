"""How far the schedule is behind, as columns of a query over the holdings."""

from typing import Any

from sqlalchemy import ColumnElement, case, func

from holdfast.durations import MINUTE
from holdfast.storage.schema import holdings

MAX_AUDIT_TIME = MINUTE  # after which an audit under way counts as overdue


def lag_at(now: int) -> list[ColumnElement[Any]]:
    """Return the columns that say how far the schedule is behind."""
    # An audit that a node keeps waiting is late as well, though a worker has it.
    waits = (holdings.c.lease <= now) | (holdings.c.due <= now - MAX_AUDIT_TIME)
    late = (holdings.c.due <= now) & waits
    return [
        func.count(case((late, 1))).label("overdue"),
        func.min(case((late, holdings.c.due))).label("first"),
        func.count(case((holdings.c.lease > now, 1))).label("working"),
        func.count(case((holdings.c.quarantined, 1))).label("quarantined"),
    ]
