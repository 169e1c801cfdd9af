"""The table of leaves: the only place that writes what the evidence records.

A leaf is written in the transaction that does what it records. Its place in the tree comes later.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from holdfast.errors import StorageError
from holdfast.evidence import leaf
from holdfast.storage import bulk
from holdfast.storage.schema import leaves

_INSERT = insert(leaves).inline()
_PLACE = (
    update(leaves)
    .where(leaves.c.id == bindparam(f"{bulk.OURS}id"))
    .values(place=bindparam(f"{bulk.OURS}place"))
)

OfHolding = leaf.Audit | leaf.StorageCheck | leaf.Response | leaf.CheckResponse | leaf.Registration


def record_leaf(connection: Connection, entry: leaf.Leaf, holding: int | None = None) -> None:
    record_leaves(connection, [leaf_row(leaf.encode(entry), holding)])


def leaf_row(body: bytes, holding: int | None, proof: bytes | None = None) -> dict[str, Any]:
    return {"holding": holding, "body": body, "proof": proof}


def record_leaves(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows that `leaf_row` made."""
    bulk.execute(connection, _INSERT, rows)


def assign_places(connection: Connection, rows: Sequence[Mapping[str, int]]) -> None:
    """Give leaves their places in the tree."""
    bulk.execute(connection, _PLACE, rows)


def last_leaf(connection: Connection, holding: int) -> OfHolding:
    """Return the newest leaf about a holding."""
    newest = select(leaves.c.body).where(leaves.c.holding == holding).order_by(leaves.c.id.desc())
    body = connection.execute(newest.limit(1)).scalar()
    if body is None:
        raise StorageError("the evidence has no leaf of a holding that was audited")
    entry = leaf.decode(body)
    if not isinstance(entry, OfHolding):
        raise StorageError("the evidence has a leaf at a holding that is none of its own")
    return entry
