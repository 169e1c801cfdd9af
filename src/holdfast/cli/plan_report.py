"""The result of `holdfast plan`: as text, as data and as a figure."""

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.table import Table

from holdfast.cli.terminal import table
from holdfast.control.planning.costs import Currency, Prices
from holdfast.control.planning.planner import Plan, PlanRequest, Point, Trials, better
from holdfast.durations import DAY
from holdfast.model.estimate import Estimate, finite
from holdfast.policy.registry import held_to
from holdfast.sim.frontier import Chart, Spot, draw, frontier
from holdfast.sim.measures import Measures

Row = tuple[str, str, str]  # a label, a figure and its interval
DIGITS = {Currency.UNITS: ",.4g", Currency.GAS: ",.0f", Currency.MONEY: ",.2f"}


@dataclass(frozen=True)
class PlanReport:
    """A plan, with every setting and reference that was simulated for it."""

    request: PlanRequest
    prices: Prices
    scenario: str  # as `holdfast evaluate` takes it
    fresh: Trials
    plan: Plan
    points: Sequence[Point]
    references: Sequence[Point]

    @property
    def policy(self) -> str:
        return held_to(self.plan.fresh.policy, self.plan.ceiling)

    @property
    def check(self) -> str:
        """The command that confirms the plan on other episodes."""
        words = ("--policy", self.policy, "--scenario", self.scenario)
        return shlex.join(("holdfast", "evaluate", *words, "--episodes", str(self.fresh.episodes)))

    @cached_property
    def frontier(self) -> list[Point]:
        return frontier(
            self.points,
            lambda point: (self.cost(point.measures).value, point.measures.miss_rate.value),
        )

    @cached_property
    def better(self) -> list[Point]:
        return better(self.references, self.plan.fresh, self.cost)

    def cost(self, measures: Measures) -> Estimate:
        return self.prices.cost(measures, self.request.currency)

    def data(self) -> dict[str, Any]:
        prices, measures = self.prices, self.plan.fresh.measures
        return {
            "policy": self.policy,
            "ceiling": self.plan.ceiling,
            "cost_per_month": {
                currency.value: asdict(prices.cost(measures, currency))
                for currency in prices.currencies
            },
            "gas_per_audit": prices.gas,
            "holdings": prices.holdings,
            "scenario": self.scenario,
            "episodes": self.fresh.episodes,
            "measures": finite(asdict(measures)),
            "frontier": [point.policy for point in self.frontier],
            "settings": [self._entry(point) for point in self.points],
            "references": [self._entry(point) for point in self.references],
            "better": [point.policy for point in self.better],
            "evaluate": self.check,
        }

    def draw(self, path: Path) -> None:
        chart = Chart(
            title=f"{self.policy} in {self.scenario}",
            unit=self.request.currency.label,
            settings=self._spots(self.points),
            frontier=self._spots(self.frontier),
            references=self._spots(self.references),
            plan=self._spots([self.plan.fresh])[0],
            budget=self.request.budget,
            ceiling=self.request.ceiling,
        )
        draw(chart, path)

    def describe(self, unit: int) -> Iterator[str | Table]:
        """Yield the plan as text; `unit` is the time unit, in milliseconds."""
        yield f"{self.policy} keeps a ceiling of {self.plan.ceiling:.4f} on the miss rate"
        yield table(("", ">", "95 % interval>"), [*self._detection(unit / DAY), *self._costs()])
        yield ""
        for point in self.better:
            misses, cost = point.measures.miss_rate.value, self.cost(point.measures).value
            figure = format(cost, DIGITS[self.request.currency])
            yield f"{point.policy} costs less, {figure}, and misses less, {100 * misses:.2f} %"
        yield f"confirm it: {self.check}"

    def _detection(self, days: float) -> list[Row]:
        measures = self.plan.fresh.measures
        within = [
            _row(f"damage detected within {units * days:g} days, %", estimate, ",.1f", 100)
            for units, estimate in measures.detected_within.items()
        ]
        return [
            _row("miss rate, %", measures.miss_rate, ",.2f", 100),
            _row("mean latency, days", measures.latency, ",.1f", days),
            *within,
            _row("95 % of damage detected, days", measures.time_to_detection_p95, ",.0f", days),
        ]

    def _costs(self) -> list[Row]:
        prices, measures = self.prices, self.plan.fresh.measures
        costs = [
            _row(f"per month: {currency.label}", prices.cost(measures, currency), DIGITS[currency])
            for currency in prices.currencies
        ]
        audits = _row("per month: audits per holding", prices.audits(measures), ",.1f")
        normalised = measures.gas.value / measures.audits.value
        per_audit = [
            ("per audit: normalised gas", f"{normalised:.4g}", ""),
            ("per audit: gas", f"{prices.gas:,.0f}", ""),
        ]
        if prices.money is not None:
            per_audit.append(("per audit: money", f"{prices.gas * prices.money:,.2f}", ""))
        return [audits, *costs, *per_audit]

    def _entry(self, point: Point) -> dict[str, Any]:
        measures = point.measures
        entry = {
            "cost_per_month": self.cost(measures),
            "miss_rate": measures.miss_rate,
            "latency": measures.latency,
        }
        return {"policy": point.policy} | {
            name: finite(asdict(estimate)) for name, estimate in entry.items()
        }

    def _spots(self, points: Sequence[Point]) -> list[Spot]:
        return [Spot(p.policy, self.cost(p.measures), p.measures.miss_rate) for p in points]


def _row(label: str, estimate: Estimate, digits: str, scale: float = 1.0) -> Row:
    def text(figure: float) -> str:
        return "never" if math.isinf(figure) else format(scale * figure, digits)

    return label, text(estimate.value), f"{text(estimate.low)} to {text(estimate.high)}"
