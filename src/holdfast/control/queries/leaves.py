"""The evidence: its leaves in words and in full, proofs of inclusion, and signed heads."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from holdfast.control.evidence.reader import inclusion
from holdfast.control.evidence.signer import read_origin
from holdfast.control.queries.names import name_of
from holdfast.errors import NotFoundError
from holdfast.evidence import leaf
from holdfast.evidence.checkpoint import Anchor, Checkpoint
from holdfast.evidence.explain import explain
from holdfast.evidence.note import Note
from holdfast.evidence.tree import leaf_hash
from holdfast.storage.schema import checkpoints, leaves, trees


@dataclass(frozen=True)
class LeafView:
    """A leaf: what happened, how it came about, and all that it records."""

    place: int | None  # in the tree; none until the sequencer has given it one
    kind: str
    at: int
    holding: int | None
    name: str | None  # of the holding
    title: str
    story: list[str]
    content: dict[str, Any]


@dataclass(frozen=True)
class Anchoring:
    """Where a root is on a ledger."""

    chain: int
    contract: str
    transaction: str
    block: int


@dataclass(frozen=True)
class SignedHead:
    """A signed head of the tree."""

    size: int
    root: str
    signed: int
    anchor: Anchoring | None
    note: str  # as it was signed


@dataclass(frozen=True)
class HeadPage:
    heads: list[SignedHead]
    next: int | None


@dataclass(frozen=True)
class LeafPage:
    size: int  # of the tree
    leaves: list[LeafView]
    next: int | None  # the `before` of the next page


@dataclass(frozen=True)
class ProvenLeaf:
    """A leaf with the path to a signed root: hash it, then hash along the path (RFC 6962)."""

    leaf: LeafView
    text: str  # what the tree hashes
    hash: str
    path: list[str]
    head: SignedHead


@dataclass(frozen=True)
class Timeline:
    leaves: list[LeafView]
    next: int | None


def newest_heads(connection: Connection) -> tuple[SignedHead | None, SignedHead | None]:
    """Return the newest signed head, and the newest that is anchored."""
    newest = select(checkpoints).order_by(checkpoints.c.id.desc()).limit(1)
    head = connection.execute(newest).first()
    anchored = connection.execute(newest.where(checkpoints.c.anchored)).first()
    return None if head is None else _head(head), None if anchored is None else _head(anchored)


def list_leaves(connection: Connection, *, before: int, limit: int) -> LeafPage:
    """Return leaves of the tree, the newest first."""
    query = _leaves().where(leaves.c.place < before).order_by(leaves.c.place.desc())
    rows = connection.execute(query.limit(limit)).all()
    size = connection.execute(select(func.max(checkpoints.c.size))).scalar() or 0
    return LeafPage(size, _views(rows), rows[-1].place or None if rows else None)


def prove_leaf(connection: Connection, place: int) -> ProvenLeaf:
    """Return a leaf and the proof that it is in the newest head."""
    row = connection.execute(_leaves().where(leaves.c.place == place)).first()
    newest = select(checkpoints).order_by(checkpoints.c.size.desc()).limit(1)
    head = connection.execute(newest).first()
    if row is None or head is None or head.size <= place:
        raise NotFoundError(f"there is no leaf {place}")
    body = bytes(row.body)
    path = [node.hex() for node in inclusion(connection, place, head.size)]
    return ProvenLeaf(_view(row), body.decode(), leaf_hash(body).hex(), path, _head(head))


def list_heads(connection: Connection, *, before: int, limit: int) -> HeadPage:
    """Return signed heads, the newest first."""
    query = select(checkpoints).where(checkpoints.c.id < before)
    rows = connection.execute(query.order_by(checkpoints.c.id.desc()).limit(limit + 1)).all()
    return HeadPage(
        [_head(row) for row in rows[:limit]], rows[limit - 1].id if len(rows) > limit else None
    )


def read_timeline(connection: Connection, holding: int, *, before: int, limit: int) -> Timeline:
    """Return the leaves of a holding, the newest first."""
    query = _leaves().where(leaves.c.holding == holding, leaves.c.id < before)
    rows = connection.execute(query.order_by(leaves.c.id.desc()).limit(limit + 1)).all()
    return Timeline(_views(rows[:limit]), rows[limit - 1].id if len(rows) > limit else None)


def newest_place(connection: Connection) -> int:
    """Return the place of the newest leaf in the tree; -1 if there is none."""
    place: int | None = connection.execute(select(func.max(leaves.c.place))).scalar()
    return -1 if place is None else place


def leaves_after(connection: Connection, place: int, *, limit: int) -> list[LeafView]:
    """Return the leaves that follow a place in the tree, in their order."""
    query = _leaves().where(leaves.c.place > place).order_by(leaves.c.place)
    return _views(connection.execute(query.limit(limit)))


@dataclass(frozen=True)
class HeadMark:
    """The newest head, without what it signs."""

    id: int
    size: int
    signed: int


def newest_head(connection: Connection) -> HeadMark | None:
    columns = (checkpoints.c.id, checkpoints.c.size, checkpoints.c.signed)
    query = select(*columns).order_by(checkpoints.c.id.desc()).limit(1)
    row = connection.execute(query).first()
    return None if row is None else HeadMark(*row)


@dataclass(frozen=True)
class WrittenLeaf:
    """A leaf as it was written, with its id and its holding's name."""

    id: int
    leaf: leaf.Leaf
    name: str | None


def leaves_written_after(connection: Connection, id_: int) -> list[WrittenLeaf]:
    """Return the leaves that were written after another, whether or not they have a place."""
    query = _leaves().where(leaves.c.id > id_).order_by(leaves.c.id)
    rows = connection.execute(query)
    return [WrittenLeaf(row.id, leaf.decode(bytes(row.body)), row.name) for row in rows]


@dataclass(frozen=True)
class LogState:
    """What a check of the log's head needs."""

    note: bytes | None  # of the newest head
    anchored_note: bytes | None
    frontier: bytes | None
    restored: bool  # whether the log was begun anew by a restore


def read_log_state(connection: Connection) -> LogState:
    newest = select(checkpoints.c.note).order_by(checkpoints.c.id.desc()).limit(1)
    frontier = select(trees.c.frontier)
    note, anchored, tree = (
        None if (value := connection.execute(query).scalar()) is None else bytes(value)
        for query in (newest, newest.where(checkpoints.c.anchored), frontier)
    )
    return LogState(note, anchored, tree, restored=read_origin(connection) != "")


def _leaves() -> Select[Any]:
    columns = (leaves.c.id, leaves.c.place, leaves.c.holding, leaves.c.body)
    return select(*columns, name_of(leaves.c.holding))


def _view(row: Row[Any]) -> LeafView:
    body = bytes(row.body)
    content = json.loads(body)
    decoded = leaf.decode(body)
    title, *rest = explain(decoded, row.name)
    kind = content.pop("holdfast")
    content.pop("version")
    return LeafView(row.place, kind, decoded.at, row.holding, row.name, title, rest, content)


def _views(rows: Iterable[Row[Any]]) -> list[LeafView]:
    return [_view(row) for row in rows]


def _head(row: Row[Any]) -> SignedHead:
    note = bytes(row.note)
    signed = Checkpoint.decode(Note.decode(note).text)
    anchor = None if signed.anchor is None else _anchoring(signed.anchor)
    return SignedHead(signed.size, signed.root.hex(), row.signed, anchor, note.decode())


def _anchoring(anchor: Anchor) -> Anchoring:
    contract, transaction = anchor.ledger.contract.hex(), anchor.transaction.hex()
    return Anchoring(anchor.ledger.chain, f"0x{contract}", f"0x{transaction}", anchor.block)
