"""The evidence: leaf by leaf, with a proof of inclusion; its signed heads; checked; handed on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from sqlalchemy import Row, func, select

from holdfast.control.evidence.reader import DatabaseLog, inclusion, read_verifier
from holdfast.evidence.bundle import bundle_lines
from holdfast.evidence.checkpoint import Anchor, Checkpoint
from holdfast.evidence.log import WithoutProofs
from holdfast.evidence.note import Note
from holdfast.evidence.tree import leaf_hash
from holdfast.storage.database import transaction
from holdfast.storage.schema import checkpoints, leaves
from holdfast.web.api.holdings import name_of
from holdfast.web.context import Context, RequestContext
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.pagination import LARGEST, Id, Limit
from holdfast.web.services.leaf_view import LeafTold, leaf_query, told, told_all

router = APIRouter(tags=["evidence"])

Before = Annotated[int, Query(ge=0, le=LARGEST, description="`next` of the page before.")]
CHUNK = 1 << 16  # bytes of a bundle that are sent at once


@dataclass(frozen=True)
class Anchoring:
    """Where a root stands on a ledger."""

    chain: int
    contract: str
    transaction: str
    block: int


@dataclass(frozen=True)
class HeadTold:
    """A signed head of the tree."""

    size: int
    root: str
    signed: int
    anchor: Anchoring | None
    note: str  # as it was signed


@dataclass(frozen=True)
class HeadPage:
    heads: list[HeadTold]
    next: int | None


@dataclass(frozen=True)
class LeafPage:
    size: int  # of the tree
    leaves: list[LeafTold]
    next: int | None  # the `before` of the next page


@dataclass(frozen=True)
class Proven:
    """A leaf with the way to a signed root: hash it, then hash along the path (RFC 6962)."""

    leaf: LeafTold
    text: str  # what the tree hashes
    hash: str
    path: list[str]
    head: HeadTold


@dataclass(frozen=True)
class Summary:
    key: str  # by which all of it is verified
    size: int
    head: HeadTold | None
    anchored: HeadTold | None


@dataclass(frozen=True)
class Timeline:
    leaves: list[LeafTold]
    next: int | None


@router.get("/evidence", summary="How the evidence stands, and its key")
def summary(desk: RequestContext) -> Summary:
    newest = select(checkpoints).order_by(checkpoints.c.id.desc()).limit(1)
    with transaction(desk.reader) as connection:
        head = connection.execute(newest).first()
        anchored = connection.execute(newest.where(checkpoints.c.anchored)).first()
    key = str(read_verifier(desk.folder))
    size = 0 if head is None else head.size
    return Summary(
        key,
        size,
        None if head is None else _head(head),
        None if anchored is None else _head(anchored),
    )


@router.get("/evidence/leaves", summary="Leaves of the tree, the newest first")
def listing(desk: RequestContext, before: Before = LARGEST, limit: Limit = 50) -> LeafPage:
    query = leaf_query().where(leaves.c.place < before)
    rows = desk.rows(query.order_by(leaves.c.place.desc()).limit(limit))
    size = desk.row(select(func.max(checkpoints.c.size).label("size")))
    more = rows[-1].place if rows and rows[-1].place else None
    return LeafPage((size.size if size else None) or 0, told_all(rows), more)


@router.get("/evidence/leaves/{place}", summary="One leaf, proven to be in the newest head")
def proven(desk: RequestContext, place: Id) -> Proven:
    newest = select(checkpoints).order_by(checkpoints.c.size.desc()).limit(1)
    row, head = desk.row(leaf_query().where(leaves.c.place == place)), desk.row(newest)
    if row is None or head is None or head.size <= place:
        raise WebRefusedError(Code.NOT_FOUND, f"there is no leaf {place}")
    body = bytes(row.body)
    path = [each.hex() for each in inclusion(desk.reader, place, head.size)]
    return Proven(told(row), body.decode(), leaf_hash(body).hex(), path, _head(head))


@router.get("/evidence/heads", summary="Signed heads, the newest first")
def heads(desk: RequestContext, before: Before = LARGEST, limit: Limit = 50) -> HeadPage:
    query = select(checkpoints).where(checkpoints.c.id < before)
    rows = desk.rows(query.order_by(checkpoints.c.id.desc()).limit(limit + 1))
    more = rows[limit - 1].id if len(rows) > limit else None
    return HeadPage([_head(row) for row in rows[:limit]], more)


@router.get(
    "/evidence/bundle",
    summary="The whole log in one file, for anyone to check",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "the bundle"}},
)
def bundle(
    desk: RequestContext,
    proofs: Annotated[
        bool, Query(description="With the proofs, each of which is an equation over the data.")
    ] = False,
) -> StreamingResponse:
    log = DatabaseLog(desk.reader, read_verifier(desk.folder))
    lines = (line for _, line in bundle_lines(log if proofs else WithoutProofs(log)))
    return StreamingResponse(
        _chunks(desk, lines),
        media_type="application/octet-stream",
        headers={"content-disposition": 'attachment; filename="holdfast.bundle"'},
    )


@router.get(
    "/holdings/{holding}/timeline",
    tags=["holdings"],
    summary="What the evidence tells of a holding, the newest first",
)
def timeline(
    desk: RequestContext, holding: Id, before: Before = LARGEST, limit: Limit = 50
) -> Timeline:
    name_of(desk, holding)
    query = leaf_query().where(leaves.c.holding == holding, leaves.c.id < before)
    rows = desk.rows(query.order_by(leaves.c.id.desc()).limit(limit + 1))
    more = rows[limit - 1].id if len(rows) > limit else None
    return Timeline(told_all(rows[:limit]), more)


def _head(row: Row[Any]) -> HeadTold:
    note = bytes(row.note)
    signed = Checkpoint.decode(Note.decode(note).text)
    anchor = None if signed.anchor is None else _anchoring(signed.anchor)
    when: int = row.signed
    return HeadTold(signed.size, signed.root.hex(), when, anchor, note.decode())


def _anchoring(anchor: Anchor) -> Anchoring:
    contract, where = anchor.ledger.contract.hex(), anchor.transaction.hex()
    return Anchoring(anchor.ledger.chain, f"0x{contract}", f"0x{where}", anchor.block)


def _chunks(desk: Context, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines in chunks, of which each costs a change of threads."""
    chunk = bytearray()
    for line in lines:
        chunk += line
        if len(chunk) >= CHUNK:
            if desk.closing():
                return
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)
