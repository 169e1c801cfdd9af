"""The evidence pages: leaves, one leaf with its proof, and the log to verify or download."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.control.evidence.reader import read_verifier
from holdfast.control.queries.leaves import list_leaves, newest_heads, prove_leaf
from holdfast.errors import NotFoundError
from holdfast.web.pages.entry import entry
from holdfast.web.pages.page import AsVisitor, page_router
from holdfast.web.pagination import LARGEST, Id

router = page_router()

ROWS = 30


@router.get("/evidence")
def show_evidence(
    visit: AsVisitor, before: Annotated[int, Query(ge=0, le=LARGEST)] = LARGEST
) -> HTMLResponse:
    with visit.read() as connection:
        head, anchored = newest_heads(connection)
        page = list_leaves(connection, before=before, limit=ROWS)
    try:
        key = str(read_verifier(visit.context.folder))
    except NotFoundError:  # nothing was audited yet
        key = None
    return visit.show(
        "evidence.html",
        "/evidence",
        key=key,
        head=head,
        anchored=anchored,
        page=page,
        entries=[entry(leaf, visit.unit) for leaf in page.leaves],
        later=before != LARGEST,
    )


@router.get("/evidence/{place}")
def show_leaf(visit: AsVisitor, place: Id) -> HTMLResponse:
    with visit.read() as connection:
        proven = prove_leaf(connection, place)
    return visit.show("leaf.html", "/evidence", proven=proven, entry=entry(proven.leaf, visit.unit))
