"""One holding: how it stands, what comes next and why, what is believed, and all that was."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from holdfast.control.scheduling.guardrails import DAY
from holdfast.web.api import alerts, evidence, holdings, posterior
from holdfast.web.pages import words
from holdfast.web.pages.chart import Plane, Point
from holdfast.web.pages.entry import entry
from holdfast.web.pages.fleet import assured
from holdfast.web.pages.page import AsVisitor, view
from holdfast.web.pagination import LARGEST, Id
from holdfast.web.services.posterior import BeliefAfter, BeliefTold

router = view()

ROWS = 20
PATIENCE = 0.05  # seconds to wait for the belief, before the page comes without it at first


@router.get("/holdings/{holding}")
def page(
    visit: AsVisitor, holding: Id, before: Annotated[int, Query(ge=0, le=LARGEST)] = LARGEST
) -> HTMLResponse:
    desk = visit.desk
    detail = holdings.detail(desk, holding)
    told = desk.beliefs.of(posterior.case_of(desk, holding), PATIENCE)
    timeline = evidence.timeline(desk, holding, before, ROWS)
    return visit.show(
        "holding.html",
        "/",
        detail=detail,
        holding=detail.holding,
        assured=assured(desk, [detail.holding]).get(holding),
        belief=told,
        chart=over_time(told) if told and told.audits else None,
        entries=[entry(each, visit.unit) for each in timeline.leaves],
        following=timeline.next,
        later=before != LARGEST,
        steps=alerts.cases(desk, holding=holding, limit=ROWS).steps,
    )


def over_time(told: BeliefTold) -> Plane:
    """Draw the belief of malice as the steps that audits made of it."""
    every = told.audits
    start, stop = every[0].ended, max(every[-1].ended, every[0].ended + DAY)
    line, before = [(float(start), told.prior)], told.prior
    for each in every:
        line += [(float(each.ended), before), (float(each.ended), each.malice)]
        before = each.malice
    marks = [start + (stop - start) * at // 3 for at in range(4)]
    return Plane(
        title="Belief that the node is malicious, audit by audit",
        points=[
            Point(each.ended, each.malice, f"is-{each.outcome}", _said(each)) for each in every
        ],
        x_marks=[(each, words.day(each)) for each in marks],
        y_marks=[(at / 4, f"{25 * at} %") for at in range(5)],
        line=line,
    )


def _said(after: BeliefAfter) -> str:
    when = words.minute(after.ended)
    return f"audit {after.number}, {when}: {after.outcome}, malice {words.percent(after.malice)}"
