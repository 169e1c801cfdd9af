"""The tables of shadow policies: their states per holding, and sums of their decisions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from holdfast.storage import bulk
from holdfast.storage.database import transaction
from holdfast.storage.schema import shadow_sums, shadows

MAX_HOLDINGS_PER_QUERY = 10_000  # SQLite takes 32,766 values


@dataclass(frozen=True)
class ShadowState:
    """The state of a version about a holding that another version decides about."""

    number: int  # of audits that it has seen
    memory: bytes
    chosen: int


States = Mapping[tuple[int, str], ShadowState]  # by holding and version


@dataclass(frozen=True)
class ShadowRecord:
    """What is written of a version in shadow, together with a decision of the champion."""

    state: dict[str, Any]
    decision: dict[str, Any] | None  # as sums; none where nothing is to be compared
    new: bool  # whether it had no state of this holding yet


_INSERT_STATE = insert(shadows).inline()
_UPDATE_STATE = (
    update(shadows)
    .where(
        shadows.c.holding == bindparam(f"{bulk.OURS}holding"),
        shadows.c.version == bindparam(f"{bulk.OURS}version"),
    )
    .values({name: bindparam(bulk.OURS + name) for name in ("number", "memory", "chosen")})
)


def _add_to_sums(insertion: Any) -> Any:
    """Return the statement that enters a decision, or adds it to the sums that are there."""
    key, kept = [column.name for column in shadow_sums.primary_key], {"first", "last"}
    sums = {
        column.name: column + insertion.excluded[column.name]
        for column in shadow_sums.c
        if column.name not in {*key, *kept}
    }
    return insertion.on_conflict_do_update(
        index_elements=key, set_=sums | {"last": insertion.excluded["last"]}
    )


_ADD_TO_SUMS = {
    "sqlite": _add_to_sums(sqlite.insert(shadow_sums).inline()),
    "postgresql": _add_to_sums(postgresql.insert(shadow_sums).inline()),
}


def read_states(engine: Engine, ids: Sequence[int], versions: Collection[str]) -> States:
    """Return the states of these versions about these holdings."""
    states = {}
    with transaction(engine) as connection:
        for first in range(0, len(ids), MAX_HOLDINGS_PER_QUERY):
            some = shadows.c.holding.in_(ids[first : first + MAX_HOLDINGS_PER_QUERY])
            query = select(shadows).where(some, shadows.c.version.in_(versions))
            for row in connection.execute(query):
                state = ShadowState(row.number, bytes(row.memory), row.chosen)
                states[row.holding, row.version] = state
    return states


def record_shadows(connection: Connection, records: Sequence[ShadowRecord]) -> None:
    """Write what shadows decided; only the worker with a holding's lease writes their states."""
    sums = [record.decision for record in records if record.decision is not None]
    for statement, rows in (
        (_INSERT_STATE, [record.state for record in records if record.new]),
        (_UPDATE_STATE, [record.state for record in records if not record.new]),
        (_ADD_TO_SUMS[connection.dialect.name], sums),
    ):
        if rows:
            bulk.execute(connection, statement, rows)


def delete_other_states(connection: Connection, versions: Collection[str]) -> None:
    """Delete the states of all versions but these."""
    connection.execute(delete(shadows).where(shadows.c.version.not_in(versions)))
