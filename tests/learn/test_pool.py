"""Trainings side by side end as they do alone, and the death of one is told."""

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.learn.worlds import run_of

from holdfast.errors import StorageError
from holdfast.executor import LocalExecutor
from holdfast.learn.learner import Figures
from holdfast.learn.pool import Job, train_all
from holdfast.learn.training import STATE

LONG = 100_000


def jobs(folder: Path, *, units: int) -> list[Job]:
    return [Job(run_of("dqn", units=units, seed=seed), folder / str(seed)) for seed in range(2)]


@pytest.mark.slow
def test_the_death_of_a_worker_ends_the_others_with_a_sentence(tmp_path: Path) -> None:
    def kill(job: Job, _phase: str, _done: float, _figures: Figures) -> None:
        processes = multiprocessing.active_children()
        if job.run.seed == 1:
            for child in processes:
                child.kill()

    with (
        pytest.raises(StorageError, match=r"stopped: .*was it killed"),
        LocalExecutor(2) as executor,
    ):
        train_all(jobs(tmp_path, units=LONG), executor, kill)
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_what_a_worker_complains_of_is_told(tmp_path: Path) -> None:
    first, second = jobs(tmp_path, units=LONG)
    taken = replace(second, folder=first.folder / "run.json")
    first.folder.mkdir()
    taken.folder.write_text("not a folder")
    with pytest.raises(StorageError, match=r"run\.json"), LocalExecutor(1) as executor:
        train_all([taken], executor, lambda *_: None)
    assert not (first.folder / STATE).exists()
