"""The figures of the experiments."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.model.arrays import FloatArray
from holdfast.paper.experiments import AGENTS, LATENCY, PLUS
from holdfast.paper.published import CEILING
from holdfast.paper.result import MULTIPLIER, Result, Row, SeedCurve
from holdfast.paper.table import is_constant, label, title, warning
from holdfast.sim.figure import (
    COLOURS,
    FORMATS,
    QUIET,
    house_style,
    key,
    label_decades,
    save,
    style_numbers,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.0  # inches: at 800 pixels the letters match those of the text around
PALE = "#bbbbbb"
MISSES = "miss rate (%)"
GAS = "gas per episode"


def draw(result: Result, folder: Path) -> list[str]:
    """Draw all figures of a result in every format; return their names without the ending."""
    with house_style():
        drawn = {name: paint(result) for name, paint in painters(result).items()}
        for name, figure in drawn.items():
            for kind in FORMATS:
                save(figure, folder / f"{name}.{kind}")
    return list(drawn)


def painters(result: Result) -> dict[str, Callable[[Result], "Figure"]]:
    """Return what draws each figure of a result, by the figure's name."""
    name = result.experiment
    if name.startswith("table1"):
        return {f"{name}-plane": plane, f"{name}-curves": curves}
    by_name = {
        "decomposition": decomposition,
        "ablation": ablation,
        "sensitivity": by_prior,
        "shift": by_prior,
        "frontier": frontier,
    }
    return {name: by_name[name]}


def plane(result: Result) -> "Figure":
    """Draw gas and misses of every policy, joined with the paper's point by a faint line."""
    figure, (axes,) = _sheet(result, 1, 6.2)
    rows = [row for row in result.rows if row.reached and not is_constant(row)]
    styles = style_numbers(label(result, row) for row in rows)
    for row, style in zip(rows, styles, strict=True):
        gas, miss = row.mean("gas"), 100 * row.mean("miss_rate")
        look = key(style) | {"linestyle": "none"}
        if row.paper:
            theirs = row.paper["gas"], 100 * row.paper["miss_rate"]
            axes.plot(*zip((gas, miss), theirs, strict=True), color=PALE, linewidth=1, zorder=1)
            empty = {"markerfacecolor": "white", "markeredgecolor": look["color"]}
            axes.plot(*theirs, **look | empty | {"markersize": 6, "zorder": 2})
        axes.errorbar(
            gas,
            miss,
            xerr=_reach(row, "gas"),
            yerr=_reach(row, "miss_rate", 100),
            capsize=3,
            elinewidth=1,
            label=label(result, row),
            zorder=3,
            **look,
        )
    constants = [row for row in result.rows if is_constant(row)]
    axes.plot(
        [row.mean("gas") for row in constants],
        [100 * row.mean("miss_rate") for row in constants],
        linestyle="none",
        marker=".",
        color=PALE,
        label="constant actions",
        zorder=0,
    )
    _ceiling(axes)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _decades_upwards(axes, _both(rows, "miss_rate", 100))
    label_decades(axes, _both(rows, "gas"))
    axes.set_xlabel(GAS)
    axes.set_ylabel(MISSES)
    heading = "lower left is better"
    hollow = "; hollow: the paper's figures" if any(row.paper for row in rows) else ""
    axes.set_title(heading + hollow, fontsize=10, color=QUIET)
    _legend(figure, [axes])
    return figure


def curves(result: Result) -> "Figure":
    """Draw each agent's return by episode for every seed, and its lambda if it changes."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra

    figure = Figure(figsize=(WIDTH, 5.0), layout="constrained")
    panels = figure.subplots(2, 4, sharex=True).flat
    for axes, agent in zip(panels, AGENTS, strict=True):
        runs = [curve for curve in result.curves if curve.policy == agent]
        (style,) = style_numbers([agent])
        _draw_runs(axes, runs, key(style)["color"])
        axes.set_title(agent, fontsize=10)
        tidy(axes)
        axes.tick_params(labelsize=8)
    figure.supxlabel("training episode", fontsize=10)
    figure.supylabel("return, 30-episode moving average", fontsize=10)
    _title(figure, result, "thin: a seed; thick: their mean; dashed, right: λ")
    return figure


def _draw_runs(axes: "Axes", runs: Sequence[SeedCurve], colour: str) -> None:
    for run in runs:
        axes.plot(run.curve.episode, run.curve.returns, color=colour, alpha=0.35, linewidth=0.8)
    if not runs:
        return
    mean = np.mean([run.curve.returns for run in runs], axis=0)
    axes.plot(runs[0].curve.episode, mean, color=colour, linewidth=1.8)
    if any(len(set(run.curve.multiplier)) > 1 for run in runs):
        right = axes.twinx()
        for run in runs:
            right.plot(
                run.curve.episode,
                run.curve.multiplier,
                color=QUIET,
                linestyle="--",
                linewidth=0.8,
            )
        right.set_ylim(0, 210)
        right.tick_params(labelsize=8, labelcolor=QUIET, color=QUIET)
        right.spines[["top", "left", "bottom"]].set_visible(False)
        right.spines["right"].set_color(QUIET)


def decomposition(result: Result) -> "Figure":
    """Draw gas and misses of the four combinations, the paper's figures as marks."""
    figure, panels = _sheet(result, 2, 3.9)
    rows = [row for row in result.rows if row.reached]
    positions = np.array([0.0, 0.8, 2.0, 2.8])[: len(rows)]
    names = [f"{row.policy}\n{row.variant}" for row in rows]
    for axes, (measure, scale, heading) in zip(panels, _GAS_AND_MISSES, strict=True):
        _bars(axes, positions, rows, measure, scale)
        axes.plot(
            positions,
            [scale * row.paper[measure] for row in rows],
            linestyle="none",
            marker="D",
            color=COLOURS[1],
            markeredgecolor="white",
            label="the paper",
        )
        axes.set_xticks(positions, names, fontsize=8)
        axes.set_ylabel(heading)
        if measure == "miss_rate":
            _ceiling(axes)
        tidy(axes)
        axes.grid(visible=False, axis="x")
    _legend(figure, panels)
    return figure


def ablation(result: Result) -> "Figure":
    """Draw gas and misses without each part."""
    figure, panels = _sheet(result, 2, 3.9)
    rows = [row for row in result.rows if row.reached]
    positions = -np.arange(len(rows), dtype=float)
    for axes, (measure, scale, heading) in zip(panels, _GAS_AND_MISSES, strict=True):
        _bars(axes, positions, rows, measure, scale, horizontal=True)
        axes.set_yticks(positions, [row.variant for row in rows])
        axes.set_xlabel(heading)
        if measure == "miss_rate":
            axes.axvline(100 * CEILING, **_CEILING, label="ceiling")
            axes.tick_params(labelleft=False)
        tidy(axes)
        axes.grid(visible=False, axis="y")
    _legend(figure, panels)
    return figure


def by_prior(result: Result) -> "Figure":
    """Draw gas and misses of each policy over the share of malicious nodes."""
    figure, panels = _sheet(result, 2, 3.9)
    policies = list(dict.fromkeys(row.policy for row in result.rows))
    for axes, (measure, scale, heading) in zip(panels, _GAS_AND_MISSES, strict=True):
        for policy, style in zip(policies, style_numbers(policies), strict=True):
            rows = [row for row in result.rows if row.policy == policy and row.reached]
            _line(axes, style, policy, [row.malicious_share for row in rows], rows, measure, scale)
        axes.set_xticks(sorted({row.malicious_share for row in result.rows}))
        axes.set_xlabel("share of malicious nodes")
        axes.set_ylabel(heading)
        axes.set_ylim(bottom=0)
        if measure == "miss_rate":
            _ceiling(axes)
        tidy(axes)
    if result.experiment == "sensitivity":
        panels[0].set_yscale("log")
        panels[0].set_ylim(2, 80)
        panels[0].set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
        panels[0].set_yticks([], minor=True)
    _legend(figure, panels)
    return figure


def frontier(result: Result) -> "Figure":
    """Draw achieved misses, gas and the final lambda over the ceiling on misses."""
    figure, panels = _sheet(result, 3, 3.6)
    ceilings_shown = sorted({100 * row.rho for row in result.rows if row.rho})
    measures = (
        ("miss_rate", 100, "achieved " + MISSES),
        ("gas", 1, GAS),
        (MULTIPLIER, 1, "final λ"),
    )
    for axes, (measure, scale, heading) in zip(panels, measures, strict=True):
        shown = ("drqn-cmdp", PLUS, "belief")
        for level, (policy, style) in enumerate(zip(shown, style_numbers(shown), strict=True)):
            rows = [row for row in result.series(policy) if row.latency in (None, LATENCY)]
            reached = [row for row in rows if row.reached and measure in row.measures]
            ceilings = [100 * (row.rho or 0.0) for row in reached]
            _line(axes, style, policy, ceilings, reached, measure, scale)
            if measure == "gas":
                _mark_out_of_reach(axes, style, level, [row for row in rows if not row.reached])
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, ceilings_shown[-1] + 1)
        axes.set_xticks(ceilings_shown, [f"{ceiling:g}" for ceiling in ceilings_shown], fontsize=8)
        axes.set_xlabel("ceiling on misses (%)")
        axes.set_ylabel(heading)
        tidy(axes)
    panels[0].plot([0, ceilings_shown[-1]], [0, ceilings_shown[-1]], **_CEILING, label="ceiling")
    _legend(figure, panels)
    return figure


_GAS_AND_MISSES = (("gas", 1, GAS), ("miss_rate", 100, MISSES))
_CEILING: dict[str, Any] = {"color": QUIET, "linestyle": "--", "linewidth": 1.2, "zorder": 1}


def _sheet(result: Result, panels: int, height: float) -> tuple["Figure", Sequence["Axes"]]:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    _title(figure, result)
    for panel in axes:
        tidy(panel)
    return figure, list(axes)


def _title(figure: "Figure", result: Result, note: str = "") -> None:
    lines = [line for line in (warning(result), title(result), note) if line]
    figure.suptitle("\n".join(lines), fontsize=10, color="#b00000" if result.taste else "black")


def _legend(figure: "Figure", panels: Sequence["Axes"]) -> None:
    """Put one legend for all panels below, without repetitions."""
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    rows = -(-len(handles) // (4 if max(map(len, handles)) > 16 else 5))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=-(-len(handles) // rows),
        frameon=False,
        fontsize=9,
    )


def _ceiling(axes: "Axes") -> None:
    axes.axhline(100 * CEILING, **_CEILING, label="ceiling")


def _decades_upwards(axes: "Axes", values: Sequence[float]) -> None:
    low, high = min(values) / 1.5, 100.0
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= tick <= high]
    axes.set_ylim(low, high)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks([], minor=True)


def _both(rows: Sequence[Row], measure: str, scale: float = 1.0) -> list[float]:
    """Return our figures and the paper's."""
    theirs = [row.paper[measure] for row in rows if row.paper]
    return [scale * figure for figure in (*(row.mean(measure) for row in rows), *theirs)]


def _bars(
    axes: "Axes",
    positions: FloatArray,
    rows: Sequence[Row],
    measure: str,
    scale: float,
    *,
    horizontal: bool = False,
) -> None:
    """Draw the figures as bars with their intervals, and every seed as a dot."""
    figures = [scale * row.mean(measure) for row in rows]
    reach = np.hstack([_reach(row, measure, scale) for row in rows])
    look: dict[str, Any] = {"color": "#9ec9e2", "ecolor": "black", "capsize": 3, "zorder": 1}
    if horizontal:
        axes.barh(positions, figures, 0.62, xerr=reach, **look)
    else:
        axes.bar(positions, figures, 0.62, yerr=reach, **look)
    for index, (position, row) in enumerate(zip(positions, rows, strict=True)):
        seeds = [scale * figure for figure in row.measures[measure].known]
        beside = np.full(len(seeds), position) + 0.2
        points = (seeds, beside) if horizontal else (beside, seeds)
        axes.plot(
            *points,
            linestyle="none",
            marker=".",
            color=COLOURS[0],
            label="a seed" if index == 0 else None,
        )


def _line(
    axes: "Axes",
    style: int,
    policy: str,
    positions: Sequence[float],
    rows: Sequence[Row],
    measure: str,
    scale: float,
) -> None:
    reach = np.hstack([_reach(row, measure, scale) for row in rows]) if rows else None
    figures = [scale * row.mean(measure) for row in rows]
    look = key(style) | {"markersize": 6, "capsize": 3, "elinewidth": 1}
    axes.errorbar(positions, figures, yerr=reach, label=policy, **look)


def _mark_out_of_reach(axes: "Axes", style: int, level: int, rows: Sequence[Row]) -> None:
    if not rows:
        return
    axes.plot(
        [100 * (row.rho or 0.0) for row in rows],
        [0.03 + 0.06 * level] * len(rows),
        linestyle="none",
        marker="x",
        color=key(style)["color"],
        transform=axes.get_xaxis_transform(),
        label="out of reach",
    )


def _reach(row: Row, measure: str, scale: float = 1.0) -> FloatArray:
    """Return how far the interval reaches below and above the figure, as a column."""
    summary, figure = row.measures[measure], row.mean(measure)
    low = figure if summary.low is None else summary.low
    high = figure if summary.high is None else summary.high
    below, above = max(figure - low, 0.0), max(high - figure, 0.0)
    return scale * np.array([[below], [above]])
