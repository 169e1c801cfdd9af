"""The frontier of cost and misses: what is on it, and a picture of it with references and plan."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.model.estimate import Estimate
from holdfast.sim.figure import (
    COLOURS,
    QUIET,
    check_can_draw,
    house_style,
    key,
    label_decades,
    save,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")

TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)  # per cent


def frontier(points: Iterable[T], place: Callable[[T], tuple[float, float]]) -> list[T]:
    """Return the points that no other beats in cost and misses, the cheapest first.

    `place` returns a point's cost and misses. A point without a miss rate is on no frontier.
    """
    best: list[T] = []
    lowest = math.inf
    for point in sorted(points, key=place):
        misses = place(point)[1]
        if misses < lowest:
            lowest = misses
            best.append(point)
    return best


@dataclass(frozen=True)
class Spot:
    """Where a policy lies on the plane of cost and misses."""

    label: str
    cost: Estimate
    misses: Estimate


@dataclass(frozen=True)
class Chart:
    title: str
    unit: str  # of the cost
    settings: Sequence[Spot]
    frontier: Sequence[Spot]  # of the settings, the cheapest first
    references: Sequence[Spot]
    plan: Spot
    budget: float | None = None
    ceiling: float | None = None


def draw(chart: Chart, path: Path) -> None:
    check_can_draw(path)
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra

    with house_style():
        figure = Figure(figsize=(8, 5.6), layout="constrained")
        axes = figure.subplots()
        _draw_limits(axes, chart)
        blue: dict[str, Any] = {"color": COLOURS[0], "linestyle": "none", "markersize": 6}
        _draw_spots(axes, chart.settings, "settings", marker="o", **blue)
        costs = [spot.cost.value for spot in chart.frontier]
        misses = [100 * spot.misses.value for spot in chart.frontier]
        # Between two settings there is nothing: what a budget buys changes in steps.
        axes.step(costs, misses, where="post", color=COLOURS[0], linewidth=1.4, label="frontier")
        for index, (kind, spots) in enumerate(_kinds(chart.references).items(), start=1):
            look = key(index) | {"color": QUIET, "linewidth": 0.8, "linestyle": ":"}
            _draw_spots(axes, spots, kind, **look | {"markersize": 6, "zorder": 2})
        star = {"marker": "*", "markersize": 17, "zorder": 5}
        _draw_spots(axes, [chart.plan], "the plan", **blue | star | {"color": COLOURS[1]})
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.set_yticks([], minor=True)
        everything = [chart.plan, *chart.settings, *chart.references]
        label_decades(axes, [spot.cost.value for spot in everything])
        shares = [max(100 * spot.misses.value, TICKS[0]) for spot in everything]
        axes.set_ylim(min(shares) / 1.2, min(max(shares) * 1.2, 100))
        axes.xaxis.set_major_formatter("{x:,.10g}")
        axes.set_xlabel(f"{chart.unit} a month")
        axes.set_ylabel("miss rate (%)")
        axes.set_title("Cost and safety: lower left is better", fontsize=10, color=QUIET)
        tidy(axes)
        figure.suptitle(chart.title, fontsize=12)
        figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=9)
        save(figure, path)


def _kinds(spots: Sequence[Spot]) -> dict[str, list[Spot]]:
    """Return spots by what they have in common, such as `belief` with several ceilings."""
    kinds: dict[str, list[Spot]] = {}
    for spot in spots:
        kinds.setdefault(spot.label.partition(":")[0], []).append(spot)
    return kinds


def _draw_limits(axes: "Axes", chart: Chart) -> None:
    look: dict[str, Any] = {"color": COLOURS[1], "linewidth": 1.2, "zorder": 1}
    if chart.budget is not None:
        axes.axvline(chart.budget, label="budget", linestyle="--", **look)
    if chart.ceiling is not None:
        axes.axhline(100 * chart.ceiling, label="ceiling", linestyle="-.", **look)


def _draw_spots(axes: "Axes", spots: Sequence[Spot], label: str, **look: Any) -> None:
    costs = [spot.cost for spot in spots]
    misses = [spot.misses for spot in spots]
    usual: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.8, "zorder": 3}
    axes.errorbar(
        [cost.value for cost in costs],
        [100 * share.value for share in misses],
        xerr=[[e.value - e.low for e in costs], [e.high - e.value for e in costs]],
        yerr=[
            [100 * (e.value - e.low) for e in misses],
            [100 * (e.high - e.value) for e in misses],
        ],
        elinewidth=0.8,
        label=label,
        **usual | look,
    )
