"""Runs jobs side by side, the longest first, and tells what is still to be done."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from holdfast import atomic, learn
from holdfast.errors import HoldfastError
from holdfast.executor import failure
from holdfast.folder_jobs import FolderJob, sweep_folders
from holdfast.paper.execute import carry_out
from holdfast.paper.job import Done, Job, done_path, read_done, run_folder
from holdfast.policy import checkpoint, json_schema

OnProgress = Callable[[Job, float], None]  # is called with the share of a job that is done


def missing(jobs: Sequence[Job], out: Path) -> list[Job]:
    return [job for job in jobs if read_done(out, job) is None]


def check_can_train(jobs: Sequence[Job]) -> None:
    """Refuse, before any work is done, what this installation can't train."""
    if any(job.training for job in jobs):
        learn.check_installed()


def run(jobs: Sequence[Job], out: Path, executor: Executor | None, on_progress: OnProgress) -> None:
    """Do the jobs. If some fail, do the others before saying so."""
    check_can_train(jobs)
    (out / "jobs").mkdir(parents=True, exist_ok=True)
    longest_first = sorted(jobs, key=lambda job: -job.seconds)
    job_of = {
        FolderJob(partial(carry_out, job), run_folder(out, job), checkpoint.MANIFEST): job
        for job in longest_first
    }
    failed = []
    for work, future in sweep_folders(
        executor, list(job_of), lambda work, share: on_progress(job_of[work], min(share, 0.99))
    ):
        job = job_of[work]
        if reason := failure(future):
            failed.append(f"{job.id}: {reason}")
        else:
            _write(out, job, future.result())
            on_progress(job, 1.0)
    if failed:
        raise HoldfastError(
            f"{len(failed)} of {len(jobs)} jobs failed, the first is {failed[0]};"
            " start again to do what is missing"
        )


def _write(out: Path, job: Job, done: Done) -> None:
    path = done_path(out, job)
    atomic.sweep(path)
    atomic.write(path, json_schema.dump(done))
