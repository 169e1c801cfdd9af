"""The cost page: gas per day, what simple rules would cost, and what guardrails changed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from fastapi.responses import HTMLResponse, RedirectResponse

from holdfast.control.planning.check_costs import forecast_checks
from holdfast.control.policies.aliases import read_aliases
from holdfast.control.queries.audits import AuditFilter, list_audits
from holdfast.control.queries.daily import CheckCosts, Day
from holdfast.control.scheduling import guardrails
from holdfast.control.scheduling.guardrails import FAIL_SAFE, Override
from holdfast.web.pages import words
from holdfast.web.pages.chart import Columns, Series
from holdfast.web.pages.page import AsVisitor, page_router
from holdfast.web.pagination import MarkText, read_mark, write_mark
from holdfast.web.services.baselines import Costs

router = page_router()

DAYS = 30
ROWS = 30
HIGH = "fixed-high"  # what auditing would cost without any thought


@dataclass(frozen=True)
class Saving:
    """What the policy that decides spends less than fixed high-frequency auditing."""

    policy: str
    share: float
    misses: float | None
    fixed_misses: float | None


@dataclass(frozen=True)
class Guardrails:
    """How often each guardrail changed an audit."""

    chart: Columns
    totals: list[tuple[str, int]]  # the most frequent first
    times: int
    fail_safe: int  # of these


@router.get("/cost")
def show_cost(visit: AsVisitor, after: MarkText | None = None) -> HTMLResponse:
    context, mark = visit.context, read_mark(after)
    with visit.read() as connection:
        days = context.daily_totals.last(connection, DAYS)
        changed, following = list_audits(
            connection, AuditFilter(overridden=True), after=mark, limit=ROWS
        )
        champion = read_aliases(connection).champion
        forecasts = forecast_checks(connection, context.settings, context.clock())
    comparison = context.baselines.compare(context.champion.find(champion))
    gas = sum(day.gas for day in days)
    audits = sum(day.audits - day.checks.checks for day in days)
    checks = reduce(CheckCosts.plus, (day.checks for day in days), CheckCosts())
    rows = sorted(comparison.policies, key=lambda costs: costs.gas.value or 0)
    series = Series("tone-0", "gas", [day.gas for day in days])
    return visit.show(
        "cost.html",
        "/cost",
        days=DAYS,
        spent=gas,
        audits=audits,
        gas_per_audit=gas / audits if audits else 0.0,
        chart=Columns("Gas per day", [words.day(day.start) for day in days], [series]),
        checks=checks,
        money=context.settings.prices.money(checks.read_bytes, checks.requests),
        check_chart=read_chart(days),
        forecasts=forecasts,
        comparison=comparison,
        rows=rows,
        most=max((costs.gas.value or 0 for costs in rows), default=0) or 1.0,
        saving=saving(comparison.policies),
        rails=summarise_guardrails(days),
        changed=changed,
        following=write_mark(following),
        later=after is not None,
    )


def read_chart(days: Sequence[Day]) -> Columns:
    """Draw what checks by tools read each day."""
    series = Series("tone-0", "MB", [day.checks.read_bytes / 1e6 for day in days])
    return Columns("Read by checks per day", [words.day(day.start) for day in days], [series])


@router.get("/rails")
def redirect_rails() -> RedirectResponse:
    return RedirectResponse("/cost#rails", 308)


def saving(policies: Sequence[Costs]) -> Saving | None:
    """Return what the first saves against fixed high-frequency auditing."""
    fixed = next((costs for costs in policies if costs.policy == HIGH), None)
    if fixed is None or not fixed.gas.value or policies[0].gas.value is None:
        return None
    ours = policies[0]
    return Saving(
        ours.policy,
        1 - policies[0].gas.value / fixed.gas.value,
        ours.miss_rate.value,
        fixed.miss_rate.value,
    )


def summarise_guardrails(days: Sequence[Day]) -> Guardrails:
    reasons = [(override, guardrails.override_names(override)[0]) for override in Override]
    series = [
        Series(f"tone-{tone}", name, [day.overrides.get(name, 0) for day in days])
        for tone, (_, name) in enumerate(reasons)
    ]
    totals = Counter({name: sum(day.overrides.get(name, 0) for day in days) for _, name in reasons})
    return Guardrails(
        Columns("Overrides per day by rail", [words.day(day.start) for day in days], series),
        [(name, times) for name, times in totals.most_common() if times],
        totals.total(),
        sum(totals[name] for override, name in reasons if override & FAIL_SAFE),
    )
