"""Cost: the gas of each day, and what other rules would spend and miss in the same world."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi.responses import HTMLResponse

from holdfast.web.api import cost
from holdfast.web.pages import words
from holdfast.web.pages.chart import Columns, Series
from holdfast.web.pages.page import AsVisitor, view
from holdfast.web.services.baselines import Costs

router = view()

DAYS = 30
HIGH = "fixed-high"  # what auditing would cost without any thought


@dataclass(frozen=True)
class Saving:
    """What the policy that decides spends less than fixed high-frequency auditing."""

    policy: str
    share: float
    misses: float | None
    fixed_misses: float | None


@router.get("/cost")
def page(visit: AsVisitor) -> HTMLResponse:
    days = cost.cost(visit.desk, DAYS)
    compared = cost.rules(visit.desk)
    spent = sum(day.gas for day in days)
    audits = sum(day.audits for day in days)
    rows = sorted(compared.policies, key=lambda each: each.gas.value or 0)
    gas = Series("tone-0", "gas", [day.gas for day in days])
    return visit.show(
        "cost.html",
        "/cost",
        days=DAYS,
        spent=spent,
        audits=audits,
        each=spent / audits if audits else 0.0,
        chart=Columns("Gas a day", [words.day(day.start) for day in days], [gas]),
        compared=compared,
        rows=rows,
        most=max((each.gas.value or 0 for each in rows), default=0) or 1.0,
        saving=saving(compared.policies),
    )


def saving(policies: Sequence[Costs]) -> Saving | None:
    """Return what the first spares against fixed high-frequency auditing."""
    fixed = next((each for each in policies if each.policy == HIGH), None)
    if fixed is None or not fixed.gas.value or policies[0].gas.value is None:
        return None
    ours = policies[0]
    return Saving(
        ours.policy,
        1 - policies[0].gas.value / fixed.gas.value,
        ours.miss_rate.value,
        fixed.miss_rate.value,
    )
