"""The page of a holding: its state, its next audit and why, its node, and its past."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.control.queries.coverage_words import CAVEAT
from holdfast.control.queries.holdings import read_holding
from holdfast.control.queries.incidents import list_steps
from holdfast.control.queries.leaves import LeafView, read_timeline
from holdfast.durations import DAY
from holdfast.web.pages import words
from holdfast.web.pages.chart import Plane, Point
from holdfast.web.pages.entry import entry
from holdfast.web.pages.page import AsVisitor, page_router
from holdfast.web.pages.summary import cases_under_way
from holdfast.web.pagination import LARGEST, Id
from holdfast.web.services.posterior import Belief, BeliefAfter, observe

router = page_router()

ROWS = 20
BELIEF_TIMEOUT_SECONDS = 0.05  # after which the page comes without the belief at first


@router.get("/holdings/{holding}")
def show_holding(
    visit: AsVisitor, holding: Id, before: Annotated[int, Query(ge=0, le=LARGEST)] = LARGEST
) -> HTMLResponse:
    context = visit.context
    with visit.read() as connection:
        detail = read_holding(connection, context.as_of_now(), holding)
        checked = detail.holding.checked
        observations = None if checked else observe(connection, context.settings, holding)
        timeline = read_timeline(connection, holding, before=before, limit=ROWS)
        steps = list_steps(connection, holding=holding, limit=ROWS).steps
        cases = cases_under_way(connection, holding)
    belief = None
    if observations is not None:
        belief = context.posteriors.infer_within(observations, BELIEF_TIMEOUT_SECONDS)
    return visit.show(
        "holding.html",
        "/",
        detail=detail,
        holding=detail.holding,
        belief=belief,
        chart=belief_chart(belief) if belief and belief.audits else None,
        entries=[entry(leaf, visit.unit) for leaf in timeline.leaves],
        following=timeline.next,
        later=before != LARGEST,
        checked=checked,
        caveat=CAVEAT,
        last_check=last_check(timeline.leaves),
        steps=steps,
        cases=cases,
        more_cases=0,
    )


def last_check(leaves: Sequence[LeafView]) -> dict[str, Any] | None:
    """Return what the newest check among these leaves says."""
    return next((leaf.content for leaf in leaves if leaf.kind == "check"), None)


def belief_chart(belief: Belief) -> Plane:
    """Draw the belief of malice as a line with a step at each audit."""
    audits = belief.audits
    start, stop = audits[0].ended, max(audits[-1].ended, audits[0].ended + DAY)
    line, before = [(float(start), belief.prior)], belief.prior
    for audit in audits:
        line += [(float(audit.ended), before), (float(audit.ended), audit.malice)]
        before = audit.malice
    marks = [start + (stop - start) * at // 3 for at in range(4)]
    return Plane(
        title="Belief that the node is malicious, audit by audit",
        points=[
            Point(audit.ended, audit.malice, f"is-{audit.outcome}", _title(audit))
            for audit in audits
        ],
        x_marks=[(mark, words.day(mark)) for mark in marks],
        y_marks=[(at / 4, f"{25 * at} %") for at in range(5)],
        line=line,
    )


def _title(after: BeliefAfter) -> str:
    when = words.minute(after.ended)
    return f"audit {after.number}, {when}: {after.outcome}, malice {words.percent(after.malice)}"
