"""The evidence: its leaves with proofs of inclusion, its signed heads, and the whole log."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from holdfast.control.evidence.reader import DatabaseLog, read_verifier
from holdfast.control.queries.holdings import read_name
from holdfast.control.queries.leaves import (
    HeadPage,
    LeafPage,
    ProvenLeaf,
    SignedHead,
    Timeline,
    list_heads,
    list_leaves,
    newest_heads,
    prove_leaf,
    read_timeline,
)
from holdfast.evidence.bundle import bundle_lines
from holdfast.evidence.log import WithoutProofs
from holdfast.web.context import Context, RequestContext
from holdfast.web.pagination import LARGEST, Id, Limit

router = APIRouter(tags=["evidence"])

Before = Annotated[int, Query(ge=0, le=LARGEST, description="`next` of the page before.")]
CHUNK_BYTES = 1 << 16  # of a bundle, sent at once


@dataclass(frozen=True)
class Summary:
    key: str  # by which all of it is verified
    size: int
    head: SignedHead | None
    anchored: SignedHead | None


@router.get("/evidence", summary="The size of the evidence, its newest heads, and its key")
def get_summary(context: RequestContext) -> Summary:
    with context.read() as connection:
        head, anchored = newest_heads(connection)
    return Summary(
        str(read_verifier(context.folder)), 0 if head is None else head.size, head, anchored
    )


@router.get("/evidence/leaves", summary="Leaves of the tree, the newest first")
def get_leaves(context: RequestContext, before: Before = LARGEST, limit: Limit = 50) -> LeafPage:
    with context.read() as connection:
        return list_leaves(connection, before=before, limit=limit)


@router.get("/evidence/leaves/{place}", summary="One leaf, proven to be in the newest head")
def get_leaf(context: RequestContext, place: Id) -> ProvenLeaf:
    with context.read() as connection:
        return prove_leaf(connection, place)


@router.get("/evidence/heads", summary="Signed heads, the newest first")
def get_heads(context: RequestContext, before: Before = LARGEST, limit: Limit = 50) -> HeadPage:
    with context.read() as connection:
        return list_heads(connection, before=before, limit=limit)


@router.get(
    "/evidence/bundle",
    summary="The whole log in one file, for anyone to check",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "the bundle"}},
)
def get_bundle(
    context: RequestContext,
    proofs: Annotated[
        bool, Query(description="With the proofs, each of which is an equation over the data.")
    ] = False,
) -> StreamingResponse:
    log = DatabaseLog(context.reader, read_verifier(context.folder))
    lines = (line for _, line in bundle_lines(log if proofs else WithoutProofs(log)))
    return StreamingResponse(
        _chunks(context, lines),
        media_type="application/octet-stream",
        headers={"content-disposition": 'attachment; filename="holdfast.bundle"'},
    )


@router.get(
    "/holdings/{holding}/timeline",
    tags=["holdings"],
    summary="The leaves of a holding, the newest first",
)
def get_timeline(
    context: RequestContext, holding: Id, before: Before = LARGEST, limit: Limit = 50
) -> Timeline:
    with context.read() as connection:
        read_name(connection, holding)  # or there is no such holding
        return read_timeline(connection, holding, before=before, limit=limit)


def _chunks(context: Context, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines in chunks: each chunk costs a change of threads."""
    chunk = bytearray()
    for line in lines:
        chunk += line
        if len(chunk) >= CHUNK_BYTES:
            if context.is_closing():
                return
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)
