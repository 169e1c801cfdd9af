"""The evidence: browsed leaf by leaf, verified while one watches, taken along as a bundle."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.errors import HoldfastError
from holdfast.web.api import evidence
from holdfast.web.pages.entry import entry
from holdfast.web.pages.page import AsVisitor, view
from holdfast.web.pagination import LARGEST, Id

router = view()

ROWS = 30


@router.get("/evidence")
def page(
    visit: AsVisitor, before: Annotated[int, Query(ge=0, le=LARGEST)] = LARGEST
) -> HTMLResponse:
    try:
        summary = evidence.summary(visit.desk)
    except HoldfastError:  # nothing was audited yet, so there is no key
        summary = None
    found = evidence.listing(visit.desk, before, ROWS)
    return visit.show(
        "evidence.html",
        "/evidence",
        summary=summary,
        found=found,
        entries=[entry(each, visit.unit) for each in found.leaves],
        later=before != LARGEST,
    )


@router.get("/evidence/{place}")
def leaf(visit: AsVisitor, place: Id) -> HTMLResponse:
    proven = evidence.proven(visit.desk, place)
    return visit.show("leaf.html", "/evidence", proven=proven, entry=entry(proven.leaf, visit.unit))
