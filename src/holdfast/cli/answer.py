"""What `holdfast plan` answers: as text, as data, and as a picture."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.cli.terminal import say
from holdfast.control.planning.costs import Currency, Prices
from holdfast.control.planning.planner import Plan, PlanRequest, Point, Trials, better
from holdfast.control.scheduling.guardrails import DAY
from holdfast.model.estimate import Estimate, finite
from holdfast.policy.registry import held_to
from holdfast.sim.frontier import Chart, Spot, draw, frontier
from holdfast.sim.measures import Measures

Row = tuple[str, str, str]  # a label, a figure and its interval
DIGITS = {Currency.UNITS: ",.4g", Currency.GAS: ",.0f", Currency.MONEY: ",.2f"}


@dataclass(frozen=True)
class Answer:
    """A plan, and all that was tried for it."""

    wish: PlanRequest
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
        """The command that finds the same on other episodes."""
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
        return self.prices.cost(measures, self.wish.currency)

    def data(self) -> dict[str, Any]:
        prices, measures = self.prices, self.plan.fresh.measures
        return {
            "policy": self.policy,
            "ceiling": self.plan.ceiling,
            "cost_per_month": {
                each.value: asdict(prices.cost(measures, each)) for each in prices.currencies
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
            unit=self.wish.currency.label,
            settings=self._spots(self.points),
            frontier=self._spots(self.frontier),
            references=self._spots(self.references),
            plan=self._spots([self.plan.fresh])[0],
            budget=self.wish.budget,
            ceiling=self.wish.ceiling,
        )
        draw(chart, path)

    def tell(self, unit: int) -> None:
        """Print the plan; `unit` is that of time, in milliseconds."""
        say(f"{self.policy} keeps a ceiling of {self.plan.ceiling:.4f} on the miss rate\n")
        rows = [*self._finding(unit / DAY), *self._spending()]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        for label, figure, interval in rows:
            say(f"{label:<{widths[0]}}  {figure:>{widths[1]}}  {interval:>{widths[2]}}".rstrip())
        say("")
        for point in self.better:
            misses, cost = point.measures.miss_rate.value, self.cost(point.measures).value
            dear = format(cost, DIGITS[self.wish.currency])
            say(f"{point.policy} costs less, {dear}, and misses less, {100 * misses:.2f} %")
        say(f"find the same: {self.check}")

    def _finding(self, days: float) -> list[Row]:
        measures = self.plan.fresh.measures
        within = [
            _row(f"damage found within {units * days:g} days, %", estimate, ",.1f", 100)
            for units, estimate in measures.detected_within.items()
        ]
        return [
            ("", "", "95 % interval"),
            _row("miss rate, %", measures.miss_rate, ",.2f", 100),
            _row("mean latency, days", measures.latency, ",.1f", days),
            *within,
            _row("95 % of damage found, days", measures.time_to_detection_p95, ",.0f", days),
        ]

    def _spending(self) -> list[Row]:
        prices, measures = self.prices, self.plan.fresh.measures
        costs = [
            _row(f"a month: {each.label}", prices.cost(measures, each), DIGITS[each])
            for each in prices.currencies
        ]
        audits = _row("a month: audits a holding", prices.audits(measures), ",.1f")
        normalised = measures.gas.value / measures.audits.value
        each_audit = [
            ("an audit: normalised gas", f"{normalised:.4g}", ""),
            ("an audit: gas", f"{prices.gas:,.0f}", ""),
        ]
        if prices.money is not None:
            each_audit.append(("an audit: money", f"{prices.gas * prices.money:,.2f}", ""))
        return [audits, *costs, *each_audit]

    def _entry(self, point: Point) -> dict[str, Any]:
        measures = point.measures
        entry = {
            "cost_per_month": self.cost(measures),
            "miss_rate": measures.miss_rate,
            "latency": measures.latency,
        }
        return {"policy": point.policy} | {
            name: finite(asdict(each)) for name, each in entry.items()
        }

    def _spots(self, points: Sequence[Point]) -> list[Spot]:
        return [Spot(p.policy, self.cost(p.measures), p.measures.miss_rate) for p in points]


def _row(label: str, estimate: Estimate, digits: str, scale: float = 1.0) -> Row:
    def shown(figure: float) -> str:
        return "never" if math.isinf(figure) else format(scale * figure, digits)

    return label, shown(estimate.value), f"{shown(estimate.low)} to {shown(estimate.high)}"
