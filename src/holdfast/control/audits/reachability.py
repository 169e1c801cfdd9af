"""Sums up for how long each node was reachable, day by day, from the contacts with it.

Nobody sees what a node does between two contacts. If it was reachable at both, the time between
them counts as reachable; if at neither, as unreachable; else half of it. After a long gap, in which
nobody looked, the time doesn't count at all.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, delete, update
from sqlalchemy.dialects import postgresql, sqlite

from holdfast.durations import DAY, HOUR, MINUTE
from holdfast.storage.schema import node_days, nodes

DAYS = 30  # that are kept, with today
MAX_GAP = 6 * HOUR  # between two contacts, by default
MIN_GAP = MINUTE  # so that many challenges a second don't write as often


def first_day(now: int) -> int:
    """Return the moment at which the days that are kept begin."""
    return now - now % DAY - (DAYS - 1) * DAY


def record_contact(
    connection: Connection, node: Any, now: int, *, reachable: bool, max_gap: int = MAX_GAP
) -> None:
    """Record whether a node was reachable now. `node` is its row, which must be locked."""
    gap = now - node.observed
    if node.reachable is reachable and abs(gap) < MIN_GAP:  # clocks of hosts differ a little
        return
    if node.reachable is not None and 0 < gap <= max_gap:
        share = (node.reachable + reachable) / 2
        for day, length in _split_by_days(node.observed, now):
            _add(connection, node.address, day, length, round(share * length))
    if now // DAY != node.observed // DAY:
        old = (node_days.c.address == node.address, node_days.c.start < first_day(now))
        connection.execute(delete(node_days).where(*old))
    changes = {"observed": now, "reachable": reachable}
    connection.execute(update(nodes).where(nodes.c.address == node.address).values(changes))


def _split_by_days(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the days of a span of time, each with how much of the span is in it."""
    while start < stop:
        day = start - start % DAY
        end = min(day + DAY, stop)
        yield day, end - start
        start = end


def _add(connection: Connection, address: bytes, day: int, observed: int, reachable: int) -> None:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = {"address": address, "start": day, "observed": observed, "reachable": reachable}
    sums = {
        "observed": node_days.c.observed + observed,
        "reachable": node_days.c.reachable + reachable,
    }
    insert = dialect.insert(node_days).values(row)
    connection.execute(insert.on_conflict_do_update(index_elements=["address", "start"], set_=sums))
