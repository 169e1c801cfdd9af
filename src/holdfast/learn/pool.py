"""Trainings side by side, by any executor."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.errors import ConflictError, StorageError
from holdfast.executor import failure, report_progress
from holdfast.folder_jobs import FolderJob, sweep_folders
from holdfast.learn.learner import Figures
from holdfast.learn.training import Run, train
from holdfast.policy import checkpoint


@dataclass(frozen=True)
class Job:
    run: Run
    folder: Path
    keep_state: bool = False  # for a longer training
    evaluate_every: int | None = None  # units


# Is called with a job and what `training.OnProgress` is called with.
OnProgress = Callable[[Job, str, float, Figures], None]


def train_all(jobs: Sequence[Job], executor: Executor | None, on_progress: OnProgress) -> None:
    """Run trainings; the first that fails ends them all.

    Without an executor they run here, one after the other. An interrupted training resumes when it
    is run again.
    """
    job_of = {FolderJob(partial(_train, job), job.folder, checkpoint.MANIFEST): job for job in jobs}
    for training, future in sweep_folders(
        executor, list(job_of), lambda training, news: on_progress(job_of[training], *news)
    ):
        if not future.cancelled() and isinstance(future.exception(), ConflictError):
            future.result()
        if reason := failure(future):
            raise StorageError(f"the training in {training.folder} stopped: {reason}")


def _train(job: Job, folder: Path) -> None:
    """Train in this folder, which on another machine is not the job's own."""
    train(
        job.run,
        folder,
        lambda *news: report_progress(news),
        keep_state=job.keep_state,
        evaluate_every=job.evaluate_every,
    )
