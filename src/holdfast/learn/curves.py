"""The curves of a training as files: CSV, and events that TensorBoard reads."""

import csv
import io
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from holdfast.learn.learner import Figures
from holdfast.learn.tensorboard import Event, EventsWriter, Summary, hparams

UNIT = "unit"


def as_csv(rows: Sequence[Figures], columns: Sequence[str]) -> bytes:
    """Return a table with one header and one row per entry; what is not known is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(name, value) for name, value in row.items()})
    return text.getvalue().encode()


def _cell(name: str, value: float) -> str:
    if name == UNIT:
        return str(int(value))
    return f"{value:.7g}" if math.isfinite(value) else ""


class Events:
    """Figures as TensorBoard reads them, written as they come.

    After a resumption they are written anew from the curves, and the old file goes: it may hold
    units that are trained once more, and a new one of the same second would have its name.
    """

    def __init__(
        self,
        folder: Path,
        settings: dict[str, Any],
        curve: Sequence[Figures],
        evaluations: Sequence[Figures],
    ) -> None:
        place = folder / "events"
        place.mkdir(exist_ok=True)
        for left in place.glob("events.out.tfevents.*"):
            left.unlink()
        # Not its `SummaryWriter`, which leaves semaphores behind when it is killed.
        self._writer = EventsWriter(str(place / "events"))
        for summary in hparams({name: _hyperparameter(settings[name]) for name in settings}, {}):
            self._write(0, summary)
        for unit, figures in enumerate(curve, start=1):
            self.write(unit, figures)
        for figures in evaluations:
            self.write_evaluation(figures)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, unit: int, figures: Figures) -> None:
        tags = {name: "losses" if name == "loss" else "charts" for name in figures}
        self._write_scalars(unit, {f"{tags[name]}/{name}": figures[name] for name in figures})

    def write_evaluation(self, figures: Figures) -> None:
        known = {name: value for name, value in figures.items() if math.isfinite(value)}
        unit = int(known.pop(UNIT))
        self._write_scalars(unit, {f"evaluation/{name}": known[name] for name in known})

    def _write_scalars(self, unit: int, figures: Figures) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in figures.items()]
        self._write(unit, Summary(value=values))

    def _write(self, unit: int, summary: Any) -> None:
        self._writer.write_event(Event(wall_time=time.time(), step=unit, summary=summary))
        self._writer.flush()


def _hyperparameter(value: Any) -> bool | float | str:
    """Return a setting as the page of hyper-parameters shows it: numbers and texts alone."""
    return value if isinstance(value, bool | int | float | str) else str(value)
