"""What a finished experiment leaves for its readers: data, a table, figures and the report."""

from collections.abc import Sequence
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.paper.result import Result, as_csv, read_results
from holdfast.policy import document


def check_can_publish(out: Path) -> None:
    """Refuse, before any work is done, a folder that can't be filled."""
    out.mkdir(parents=True, exist_ok=True)


def publish(results: Sequence[Result], out: Path) -> None:
    for result in results:
        atomic.write(out / f"{result.experiment}.json", document.dump(result))
        atomic.write(out / f"{result.experiment}.csv", as_csv(result))


def write_report(out: Path) -> Path:
    if not read_results(out):
        raise InputError(f"{out} holds no results to report")
    return out
