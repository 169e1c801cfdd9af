"""What a finished experiment leaves for its readers: data, a table, figures and the report."""

from collections.abc import Sequence
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.paper import figures, report
from holdfast.paper.result import Result, as_csv, read_results
from holdfast.policy import document
from holdfast.sim.figure import check_can_draw

REPORT = "report.html"


def check_can_publish(out: Path) -> None:
    """Refuse, before any work is done, a folder that can't be filled in the end."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is not a folder: results can't be written there")
    out.mkdir(parents=True, exist_ok=True)
    check_can_draw(out / "figure.svg")


def publish(results: Sequence[Result], out: Path) -> None:
    """Write each result as data and as a table, then the report with all figures."""
    for result in results:
        atomic.write(out / f"{result.experiment}.json", document.dump(result))
        atomic.write(out / f"{result.experiment}.csv", as_csv(result))
    write_report(out)


def write_report(out: Path) -> Path:
    """Draw the figures of whatever results the folder holds, and write the report on them."""
    check_can_draw(out / "figure.svg")
    results = read_results(out)
    if not results:
        raise InputError(f"{out} holds no results to report on: make some with --out {out}")
    pictures = {
        result.experiment: {
            name: (out / f"{name}.svg").read_text() for name in figures.draw(result, out)
        }
        for result in results
    }
    path = out / REPORT
    atomic.write(path, report.page(results, pictures).encode())
    return path
