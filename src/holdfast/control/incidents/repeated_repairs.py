"""Quarantines holdings that had to be repaired too often: their node keeps losing data."""

from typing import Any

from sqlalchemy import Connection, Engine, Select, func, insert, select

from holdfast.control.incidents.types import OPEN_STATES, State, Step
from holdfast.durations import format_duration
from holdfast.storage.database import transaction
from holdfast.storage.schema import holdings, responses


def plan_quarantines(engine: Engine, now: int, *, repairs: int, within: int) -> None:
    """Plan the quarantine of every holding with that many repairs in that time.

    Repairs before a holding's last quarantine don't count: somebody has released it since. A case
    that is under way comes to its end first.
    """
    with transaction(engine) as connection:
        for row in connection.execute(_repaired(now - within, repairs)).all():
            locked = select(holdings.c.id).where(holdings.c.id == row.holding).with_for_update()
            connection.execute(locked)
            if not _is_under_way(connection, row.holding):  # another worker may have planned it
                detail = f"repaired {row.repairs} times within {format_duration(within)}"
                _plan(connection, row.holding, row.audit, detail, now)


def _repaired(since: int, repairs: int) -> Select[Any]:
    """Return the query for holdings that were repaired that often, with the last such audit."""
    later = responses.alias()
    quarantined_later = (
        select(later.c.id)
        .where(later.c.holding == responses.c.holding, later.c.id > responses.c.id)
        .where(later.c.step == Step.QUARANTINE, later.c.state == State.DONE)
    )
    counted = (
        responses.c.step == Step.REPAIR,
        responses.c.state == State.DONE,
        responses.c.ended > since,
        ~quarantined_later.exists(),
    )
    under_way = select(later.c.id).where(
        later.c.holding == holdings.c.id, later.c.state.in_(OPEN_STATES)
    )
    count = func.count(responses.c.id)
    return (
        select(
            responses.c.holding, count.label("repairs"), func.max(responses.c.audit).label("audit")
        )
        .join(holdings, holdings.c.id == responses.c.holding)
        .where(*counted, ~holdings.c.quarantined, ~under_way.exists())
        .group_by(responses.c.holding)
        .having(count >= repairs)
    )


def _is_under_way(connection: Connection, holding: int) -> bool:
    query = select(responses.c.id).where(
        responses.c.holding == holding, responses.c.state.in_(OPEN_STATES)
    )
    return connection.execute(query.limit(1)).first() is not None


def _plan(connection: Connection, holding: int, audit: int, detail: str, now: int) -> None:
    row = {"holding": holding, "audit": audit, "detail": detail}
    ready = row | {"step": Step.QUARANTINE, "state": State.READY, "due": now, "began": now}
    then = row | {"step": Step.ALERT, "state": State.PLANNED, "due": 0, "began": 0}
    connection.execute(insert(responses), [ready, then])
