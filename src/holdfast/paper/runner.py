"""Jobs done side by side, the longest first, and what is still to be done."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from holdfast import learn, workers
from holdfast.errors import HoldfastError
from holdfast.paper.execute import carry_out
from holdfast.paper.job import Job, read_done

Tell = Callable[[Job, float], None]  # hears which share of a job is done; at 1 it is finished


def missing(jobs: Sequence[Job], out: Path) -> list[Job]:
    return [job for job in jobs if read_done(out, job) is None]


def check_can_train(jobs: Sequence[Job]) -> None:
    """Refuse, before any work is done, what this installation can't train."""
    if any(job.training for job in jobs):
        learn.check_installed()


def run(jobs: Sequence[Job], out: Path, at_once: int | None, tell: Tell) -> None:
    """Do the jobs. If some fail, do the others before saying so."""
    check_can_train(jobs)
    (out / "jobs").mkdir(parents=True, exist_ok=True)
    longest_first = sorted(jobs, key=lambda job: -job.seconds)
    pieces = [(job, partial(carry_out, job, out)) for job in longest_first]
    failed = []
    for job, failure in workers.side_by_side(
        pieces, at_once, lambda job, share: tell(job, min(share, 0.99))
    ):
        if failure:
            failed.append(f"{job.id}: {failure}")
        else:
            tell(job, 1.0)
    if failed:
        raise HoldfastError(
            f"{len(failed)} of {len(jobs)} jobs failed, the first is {failed[0]};"
            " start again to do what is missing"
        )
