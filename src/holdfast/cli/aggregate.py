"""`holdfast aggregate`: the trainings of many folders in one table."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast import atomic
from holdfast.cli.terminal import Json, complain, report, table
from holdfast.paper import aggregate as trainings
from holdfast.paper.aggregate import Group
from holdfast.paper.summary import Summary

TITLES = ("method", "scenario", "rho>", "units>", "settings", "seeds>", "gas>", "latency>")


def aggregate(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="Folders with trainings, at any depth."),
    ],
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the table as CSV as well.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Summarise trainings over their seeds, from many folders.

    Trainings that differ in nothing but the seed are one row: method, scenario, ceiling on the
    miss rate, length and settings are the same. Figures are means over seeds of what each
    checkpoint achieved on the episodes that follow training, with their 95 % intervals (none for
    a single seed). The column settings is the start of a hash of settings and scenario.

    Example: holdfast aggregate runs --csv runs.csv
    """
    if csv:
        atomic.check_output(csv)
    result = trainings.aggregate(folders)
    if csv:
        atomic.write(csv, trainings.as_csv(result.groups).encode())
    if result.unfinished and not as_json:
        first = result.unfinished[0]
        complain(f"{len(result.unfinished)} trainings are not finished, the first is {first}")
    rows = table((*TITLES, "miss rate>"), map(_row, result.groups))
    report(trainings.as_json(result), rows, as_json=as_json)


def _row(group: Group) -> tuple[str, ...]:
    seeds = f"{len(group.seeds) - group.refused} of {len(group.seeds)}"
    return (
        group.method,
        group.scenario,
        "-" if group.rho is None else f"{group.rho:g}",
        str(group.units),
        group.settings,
        seeds if group.refused else str(len(group.seeds)),
        _figure(group.measures["gas"], ".2f"),
        _figure(group.measures["latency"], ".2f"),
        _figure(group.measures["miss_rate"], ".2%"),
    )


def _figure(summary: Summary, shape: str) -> str:
    if summary.mean is None:
        return "-"
    mean = format(summary.mean, shape)
    if summary.low is None or summary.high is None:
        return mean
    return f"{mean} ({summary.low:{shape}} to {summary.high:{shape}})"
