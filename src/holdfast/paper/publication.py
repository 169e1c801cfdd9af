"""Writes the results of an experiment: data, a table and figures."""

from collections.abc import Sequence
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.paper import figures
from holdfast.paper.result import Result, as_csv
from holdfast.policy import json_schema
from holdfast.sim.figure import check_can_draw


def check_can_publish(out: Path) -> None:
    """Raise an error before any work is done if results can't be written to the folder."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is not a folder: results can't be written there")
    out.mkdir(parents=True, exist_ok=True)
    check_can_draw(out / "figure.svg")


def publish(results: Sequence[Result], out: Path) -> None:
    """Write each result as data and as a table, and draw its figures."""
    for result in results:
        atomic.write(out / f"{result.experiment}.json", json_schema.dump(result))
        atomic.write(out / f"{result.experiment}.csv", as_csv(result))
        figures.draw(result, out)
