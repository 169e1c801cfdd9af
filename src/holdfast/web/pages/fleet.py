"""The fleet: how it stands in words and figures, what audits came to, and every holding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import HTMLResponse
from sqlalchemy import and_, or_, select

from holdfast.control.queries.status import BAD, Health
from holdfast.control.scheduling.telemetry import Outcome
from holdfast.storage.schema import audits
from holdfast.web.api import fleet, holdings
from holdfast.web.api.holdings import LONGEST_SEARCH, HoldingRow, Sort
from holdfast.web.context import Context
from holdfast.web.pages import words
from holdfast.web.pages.chart import Columns, Series
from holdfast.web.pages.page import AsVisitor, view
from holdfast.web.pagination import Page
from holdfast.web.services.daily_totals import Day

router = view()

DAYS = 30
ROWS = 50
MISSED = 0.05  # how likely a sample may have missed more damage than is told


@dataclass(frozen=True)
class Assurance:
    """What a passed audit says: at most this share of the blocks was damaged, at 95 %."""

    at_most: float
    at: int


def assurance(samples: int, ended: int) -> Assurance:
    """Return what a sample of intact blocks says; with more damage one of 20 would look so."""
    return Assurance(1 - MISSED ** (1 / samples), ended)


@router.get("/")
def page(
    visit: AsVisitor,
    health: Health | Literal[""] = "",  # a form that asks for all of them sends this
    search: Annotated[str, Query(max_length=LONGEST_SEARCH)] = "",
    sort: Sort = Sort.HEALTH,
    page: Page = 1,
) -> HTMLResponse:
    wanted = "".join(each for each in search if each.isprintable())
    found = holdings.listing(
        visit.desk,
        health=[Health(health)] if health else None,
        search=wanted,
        sort=sort,
        page=page,
        limit=ROWS,
    )
    state = fleet.fleet(visit.desk, DAYS)
    return visit.show(
        "fleet.html",
        "/",
        fleet=state,
        headline=headline(state.health, cases=state.cases, alerts=state.alerts),
        chart=outcomes(state.days),
        found=found,
        assured=assured(visit.desk, found.holdings),
        health=Health(health) if health else None,
        search=wanted,
        sort=sort,
        sorts=list(Sort),
    )


def headline(health: dict[Health, int], *, cases: int = 0, alerts: int = 0) -> str:
    """Say in a sentence how the fleet is."""
    total = sum(health.values())
    if not total:
        return "No holding is on the schedule yet."
    parts = [f"{health[each]:,} {each}" for each in BAD if health[each]]
    if parts:
        troubled = sum(health[each] for each in BAD)
        verb = "needs" if troubled == 1 else "need"
        return f"{troubled:,} of {words.things(total, 'holding')} {verb} a look: {_and(parts)}."
    if cases or alerts:
        parts = [f"{cases:,} under repair"] if cases else []
        parts += [words.things(alerts, "open alert")] if alerts else []
        return f"{words.things(total, 'holding')}, {_and(parts)}."
    if health[Health.NEW]:
        return f"{health[Health.NEW]:,} of {words.things(total, 'holding')} await a first audit."
    return "The one holding is sound." if total == 1 else f"All {total:,} holdings are sound."


def outcomes(days: Sequence[Day]) -> Columns:
    series = [
        Series(f"is-{each}", str(each).replace("-", " "), [d.outcomes.get(each, 0) for d in days])
        for each in Outcome
    ]
    return Columns("Audits a day by outcome", [words.day(each.start) for each in days], series)


def assured(desk: Context, rows: Sequence[HoldingRow]) -> dict[int, Assurance]:
    """Return what the last audit says of holdings that passed it, where no more was inferred."""
    passed = [each for each in rows if not each.confidence and each.outcome == Outcome.PASSED]
    if not passed:
        return {}
    last = or_(
        *(and_(audits.c.holding == each.id, audits.c.number == each.audits) for each in passed)
    )
    query = select(audits.c.holding, audits.c.samples, audits.c.ended).where(last)
    return {row.holding: assurance(row.samples, row.ended) for row in desk.rows(query)}


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
