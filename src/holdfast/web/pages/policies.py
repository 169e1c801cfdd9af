"""The policies page: champion and challenger, the comparison in shadow, and the verdict on it."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi.responses import HTMLResponse

from holdfast.control.policies import aliases
from holdfast.control.policies.comparison import Comparison, Pair, compare
from holdfast.control.queries.policies import list_policies
from holdfast.web.pages.page import AsVisitor, page_router
from holdfast.web.pages.words import amount, percent
from holdfast.web.services.verdict_cache import Contest

router = page_router()

CHANGES = 20
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class ComparedMeasure:
    """A measure of both, and the challenger's minus the champion's."""

    label: str
    champion: str
    challenger: str
    difference: str
    interval: str


@router.get("/policies")
def show_policies(visit: AsVisitor) -> HTMLResponse:
    context, comparison, verdict = visit.context, None, None
    with visit.read() as connection:
        policies = list_policies(connection)
        history = aliases.history(connection, CHANGES)
        champion = policies.aliases.get("champion")
        challenger = policies.aliases.get("challenger")
        if champion is not None and challenger is not None:
            contest = Contest(challenger.version, champion.version)
            unit = context.settings.rails.unit
            comparison = compare(connection, contest.version, contest.champion, unit=unit)
            verdict = context.verdicts.find(contest, context.clock())
    return visit.show(
        "policies.html",
        "/policies",
        champion=champion,
        challenger=challenger,
        previous=policies.aliases.get("previous"),
        versions=policies.versions,
        comparison=comparison,
        rows=[] if comparison is None else compared_measures(comparison),
        verdict=verdict,
        conditions=context.settings.promotion,
        history=history,
    )


def compared_measures(comparison: Comparison) -> list[ComparedMeasure]:
    return [
        _row("Gas per holding and month", comparison.gas_per_month, amount),
        _row("Gas per audit", comparison.gas_per_audit, amount),
        _row("Interval", comparison.interval, amount),
        _row("Sampling ratio", comparison.ratio, percent),
        _row("Changed by rails", comparison.rails, percent),
        _row("Outside of training", comparison.outside, percent),
    ]


def _row(label: str, pair: Pair, word: Callable[[float], str]) -> ComparedMeasure:
    difference = pair.difference
    interval = f"{_signed(difference.low, word)} to {_signed(difference.high, word)}"
    both = word(pair.champion), word(pair.challenger)
    return ComparedMeasure(label, *both, _signed(difference.value, word), interval)


def _signed(value: float, word: Callable[[float], str]) -> str:
    sign = "+" if value > 0 else MINUS if value < 0 else ""
    return f"{sign}{word(abs(value))}"
