"""The rails: what was overridden, how often, and why."""

from collections import Counter

from fastapi.responses import HTMLResponse

from holdfast.control.scheduling import guardrails
from holdfast.control.scheduling.guardrails import FAIL_SAFE, Override
from holdfast.web.api import audits
from holdfast.web.pages import words
from holdfast.web.pages.chart import Columns, Series
from holdfast.web.pages.page import AsVisitor, view
from holdfast.web.pagination import Mark

router = view()

DAYS = 30
ROWS = 30


@router.get("/rails")
def page(visit: AsVisitor, after: Mark | None = None) -> HTMLResponse:
    days = visit.desk.days.last(DAYS)
    reasons = [(each, guardrails.names(each)[0]) for each in Override]
    series = [
        Series(f"tone-{at}", name, [day.overrides.get(name, 0) for day in days])
        for at, (_, name) in enumerate(reasons)
    ]
    totals = Counter({name: sum(day.overrides.get(name, 0) for day in days) for _, name in reasons})
    chart = Columns("Overrides a day by rail", [words.day(day.start) for day in days], series)
    return visit.show(
        "rails.html",
        "/rails",
        days=DAYS,
        chart=chart,
        totals=[(name, times) for name, times in totals.most_common() if times],
        audits=sum(day.audits for day in days),
        times=totals.total(),
        safe=sum(totals[name] for each, name in reasons if each & FAIL_SAFE),
        found=audits.listing(visit.desk, overridden=True, after=after, limit=ROWS),
        later=after is not None,
    )
