"""Policies: who decides, who runs in shadow and how well, what a promotion is judged by."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi.responses import HTMLResponse

from holdfast.control.policies.comparison import Comparison, Pair
from holdfast.web.api import policies
from holdfast.web.api.policies import case_of
from holdfast.web.pages.page import AsVisitor, view
from holdfast.web.pages.words import amount, percent

router = view()

CHANGES = 20
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Compared:
    """A measure of both, and the challenger's minus the champion's."""

    label: str
    champion: str
    challenger: str
    difference: str
    interval: str


@router.get("/policies")
def page(visit: AsVisitor) -> HTMLResponse:
    desk = visit.desk
    known = policies.listing(desk)
    challenger = known.aliases.get("challenger")
    beside = verdict = None
    if challenger is not None:
        beside = policies.shadow(desk, "challenger").comparison
        verdict = desk.verdicts.of(case_of(desk, "challenger"), desk.clock())
    return visit.show(
        "policies.html",
        "/policies",
        champion=known.aliases.get("champion"),
        challenger=challenger,
        previous=known.aliases.get("previous"),
        versions=known.versions,
        beside=beside,
        rows=[] if beside is None else compared(beside),
        verdict=verdict,
        conditions=desk.settings.promotion,
        history=policies.history(desk, CHANGES),
    )


def compared(beside: Comparison) -> list[Compared]:
    return [
        _row("Gas a holding and month", beside.gas_per_month, amount),
        _row("Gas an audit", beside.gas_per_audit, amount),
        _row("Interval", beside.interval, amount),
        _row("Sampling ratio", beside.ratio, percent),
        _row("Changed by rails", beside.rails, percent),
        _row("Outside of training", beside.outside, percent),
    ]


def _row(label: str, pair: Pair, word: Callable[[float], str]) -> Compared:
    found = pair.difference
    interval = f"{_signed(found.low, word)} to {_signed(found.high, word)}"
    both = word(pair.champion), word(pair.challenger)
    return Compared(label, *both, _signed(found.value, word), interval)


def _signed(value: float, word: Callable[[float], str]) -> str:
    sign = "+" if value > 0 else MINUS if value < 0 else ""
    return f"{sign}{word(abs(value))}"
