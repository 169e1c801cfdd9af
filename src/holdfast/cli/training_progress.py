"""How far trainings are: a bar for each on a terminal, a line every so often elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.cli import terminal
from holdfast.progress import describe_seconds

if TYPE_CHECKING:
    from holdfast.learn.pool import Job

MAX_BARS = 16
LINE_SECONDS = 30.0  # between two lines

OnProgress = Callable[["Job", str, float, dict[str, float]], None]


@contextmanager
def show_progress(jobs: Sequence["Job"]) -> Iterator[OnProgress]:
    """Yield what is called as trainings go on; it shows the figures of their last unit."""
    if not sys.stderr.isatty() or len(jobs) > MAX_BARS:
        yield Lines(jobs).on_progress
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=terminal.messages) as bars:
        tasks = {
            job.folder: bars.add_task(f"seed {job.run.seed}", total=job.run.units, figures="")
            for job in jobs
        }

        def on_progress(job: "Job", phase: str, done: float, figures: dict[str, float]) -> None:
            bars.update(
                tasks[job.folder],
                description=f"seed {job.run.seed}, {phase}",
                completed=done,
                figures=_figures(figures),
            )

        yield on_progress


class Lines:
    """Prints a line every so often: how much of all trainings is done, and one of them."""

    def __init__(self, jobs: Sequence["Job"], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._total = sum(job.run.units for job in jobs)
        self._done = {job.folder: 0.0 for job in jobs}
        self._first: float | None = None  # units that were done before this command
        self._began = self._shown = clock()

    def on_progress(self, job: "Job", phase: str, done: float, figures: dict[str, float]) -> None:
        if phase == "training":  # validation counts from 0 again
            self._done[job.folder] = done
        now = self._clock()
        if now - self._shown >= LINE_SECONDS:
            self._shown = now
            typer.echo(self._line(job, phase, now - self._began) + _figures(figures), err=True)

    def _line(self, job: "Job", phase: str, elapsed: float) -> str:
        done = sum(self._done.values())
        parts = [f"{100 * done / self._total:.0f} %"]
        if self._first is None:
            self._first = done
        elif done > self._first:
            left = (self._total - done) * elapsed / (done - self._first)
            parts.append(f"about {describe_seconds(left)} left")
        of_one = f"{self._done[job.folder]:.0f} of {job.run.units}"
        return f"training: {', '.join(parts)}, {job.folder} {phase} {of_one}"


def _figures(figures: dict[str, float]) -> str:
    shapes = {
        "gas": ", gas {:.1f}",
        "miss_rate": ", miss rate {:.1%}",
        "multiplier": ", multiplier {:.1f}",
    }
    return "".join(shapes[name].format(figures[name]) for name in shapes if name in figures)
