"""Results as a table for the terminal: its columns, and how figures are formatted."""

from dataclasses import dataclass
from typing import NamedTuple

from holdfast.paper.published import CEILING
from holdfast.paper.result import MULTIPLIER, Result, Row
from holdfast.paper.summary import Summary


class Column(NamedTuple):
    measure: str
    heading: str
    decimals: int
    percent: bool


COLUMNS = (
    Column("gas", "gas", 2, percent=False),
    Column("latency", "latency", 2, percent=False),
    Column("miss_rate", "misses %", 1, percent=True),
    Column("miss_rate_honest", "honest %", 1, percent=True),
    Column("detections_per_100", "found", 0, percent=False),
    Column("detected_within_14", "in 14 %", 1, percent=True),
    Column(MULTIPLIER, "final λ", 1, percent=False),
)
HEADINGS = ("policy", "seeds", *(column.heading for column in COLUMNS), "paper")
EXPLAINED = (
    "honest: misses on honest nodes; found: detections per 100 episodes; in 14: corruption events"
    " detected within 14 units; paper: its gas, latency and misses"
)
OUT_OF_REACH = "out of reach"


@dataclass(frozen=True)
class Cell:
    text: str
    interval: str = ""


def title(result: Result) -> str:
    tried = f"{result.episodes:,} episodes, seed {result.evaluation_seed}"
    trained = f"{result.seeds} training seeds" if result.seeds > 1 else "1 training seed"
    return f"{result.experiment}: {trained}, tried on {tried}"


def warning(result: Result) -> str:
    """Return the warning that every output of a quick run must show; empty for a full run."""
    return "A TASTE, NOT A RESULT: hardly trained at all" if result.taste else ""


def caption(result: Result) -> str:
    how = (
        "means over seeds with Student's 95 % intervals, none for a single seed; what needs no"
        " training runs once, with its interval over episodes"
    )
    constants = sum(is_constant(row) for row in result.rows)
    return f"{how}; {constants} constant actions beside it" if constants else how


def is_constant(row: Row) -> bool:
    return row.policy.startswith("constant:")


def label(result: Result, row: Row) -> str:
    parts = [row.policy, row.variant]
    if result.experiment in ("sensitivity", "shift"):
        parts.append(f"prior {row.malicious_share:g}")
    if row.rho is not None and (result.experiment == "frontier" or row.rho != CEILING):
        parts.append(f"rho {row.rho:g}")
    if row.latency is not None and result.experiment == "frontier":
        parts.append(f"latency {row.latency:g}")
    return ", ".join(part for part in parts if part)


def cells(result: Result, row: Row) -> list[Cell]:
    """Return the cells of a row, in the order of the headings."""
    figures = [_figure(row, column) for column in COLUMNS]
    if not row.reached:
        figures[0] = Cell(OUT_OF_REACH)
    return [Cell(label(result, row)), Cell(_seeds(row)), *figures, Cell(_paper(row))]


def _seeds(row: Row) -> str:
    if not row.trained:
        return ""
    trained_seeds = len(row.out_of_reach)
    return str(trained_seeds) if row.seeds == trained_seeds else f"{row.seeds} of {trained_seeds}"


def _figure(row: Row, column: Column) -> Cell:
    summary = row.measures.get(column.measure, Summary(()))
    if summary.mean is None:
        return Cell("")
    if summary.low is None or summary.high is None:
        return Cell(_text(summary.mean, column), "one seed" if len(summary.known) == 1 else "?")
    interval = f"{_text(summary.low, column)}-{_text(summary.high, column)}"
    return Cell(_text(summary.mean, column), interval)


def _text(figure: float, column: Column) -> str:
    return f"{100 * figure if column.percent else figure:,.{column.decimals}f}"


def _paper(row: Row) -> str:
    parts = [
        f"{row.paper[measure] * scale:.1f}{unit}"
        for measure, scale, unit in (("gas", 1, ""), ("latency", 1, ""), ("miss_rate", 100, " %"))
        if measure in row.paper
    ]
    return ", ".join(parts)
