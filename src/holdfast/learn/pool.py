"""Trainings side by side, each in a process of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from holdfast import workers
from holdfast.errors import StorageError
from holdfast.learn.learner import Figures
from holdfast.learn.training import Run, train


@dataclass(frozen=True)
class Job:
    run: Run
    folder: Path


# Hears what `training.Hear` does, and of which job.
Hear = Callable[[Job, str, float, Figures], None]


def train_all(jobs: Sequence[Job], at_once: int | None, hear: Hear) -> None:
    """Run trainings, so many at a time or one per core; the first that fails ends them all.

    What is interrupted goes on when it is run again.
    """
    pieces = [(job, partial(_train, job)) for job in jobs]
    for job, failure in workers.side_by_side(pieces, at_once, lambda job, news: hear(job, *news)):
        if failure:
            raise StorageError(f"the training in {job.folder} stopped: {failure}")


def _train(job: Job, tell: Callable[[Any], None]) -> None:
    train(job.run, job.folder, lambda *news: tell(news))
