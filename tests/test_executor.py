"""Jobs of a sweep: their results, their progress, their errors and their files."""

import os
import signal
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast import executor
from holdfast.errors import HoldfastError, InputError
from holdfast.executor import LocalExecutor, failure, report_progress, result_of, sweep
from holdfast.folder_jobs import FolderJob, sweep_folders

LONG_SECONDS = 600.0


def double(number: int) -> int:
    report_progress(f"half of {number}")
    if number < 0:
        raise InputError(f"{number} is negative")
    return 2 * number


def die(_job: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(seconds: float) -> int:
    report_progress(os.getpid())
    time.sleep(seconds)
    return os.getpid()


def ignore_sigterm(_job: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report_progress(os.getpid())
    time.sleep(LONG_SECONDS)


def usable_cores(_job: int) -> set[int]:
    return os.sched_getaffinity(0)


def test_no_process_is_pinned_so_that_two_sweeps_do_not_share_a_core() -> None:
    with LocalExecutor(1) as pool:
        assert pool.submit(usable_cores, 0).result() == os.sched_getaffinity(0)


@pytest.mark.parametrize("kind", [LocalExecutor, ThreadPoolExecutor, None])
def test_every_executor_gives_the_same_results(kind: type[Executor] | None) -> None:
    jobs = [3, -1, 4]
    messages: list[tuple[int, Any]] = []
    if kind is None:
        ended = dict(sweep(None, double, jobs, lambda *news: messages.append(news)))
    else:
        with kind() as pool:
            ended = dict(sweep(pool, double, jobs, lambda *news: messages.append(news)))
    assert (ended[3].result(), ended[4].result()) == (6, 8)
    assert (failure(ended[3]), failure(ended[-1])) == (None, "-1 is negative")
    with pytest.raises(InputError, match="-1 is negative"):
        result_of(ended[-1], "the job")
    if kind is not ThreadPoolExecutor:
        assert sorted(messages) == [(job, f"half of {job}") for job in sorted(jobs)]


@pytest.mark.slow
def test_a_process_serves_many_jobs_and_a_dead_one_is_replaced() -> None:
    with LocalExecutor(1) as pool:
        first, second = pool.submit(sleep, 0.0), pool.submit(sleep, 0.0)
        assert first.result() == second.result()
        killed = pool.submit(die, 0)
        assert pool.submit(sleep, seconds=0.0).result() != first.result()
        with pytest.raises(HoldfastError, match=r"the job failed: .*ended with -9: was it killed"):
            result_of(killed, "the job")
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(sleep, 0.0)


@pytest.mark.slow
def test_what_can_not_be_sent_to_a_process_fails_its_job_alone() -> None:
    with LocalExecutor(1) as pool:
        refused = pool.submit(lambda: None)
        assert pool.submit(double, 2).result() == 4
    assert refused.exception() is not None


@pytest.mark.slow
@pytest.mark.parametrize("work", [sleep, ignore_sigterm])
def test_an_exception_in_the_context_stops_what_runs(
    monkeypatch: pytest.MonkeyPatch, work: Any
) -> None:
    monkeypatch.setattr(executor, "STOP_SECONDS", 0.5)
    pids = []

    def interrupt(_job: float, pid: int) -> None:
        pids.append(pid)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), LocalExecutor(1) as pool:
        list(sweep(pool, work, [LONG_SECONDS, LONG_SECONDS], interrupt))
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def write(names: list[str], folder: Path) -> list[str]:
    """Write files and remove the one called old; return which files there were."""
    before = sorted(path.name for path in folder.rglob("*") if path.is_file())
    (folder / "old").unlink(missing_ok=True)
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return before


@pytest.mark.parametrize("kind", [LocalExecutor, ThreadPoolExecutor])
def test_a_job_resumes_from_the_files_of_its_folder_and_leaves_its_own(
    kind: type[Executor], tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "old").touch()
    job = FolderJob(partial(write, ["a", "b/c"]), folder, "a")
    with kind() as pool:
        ((_, future),) = sweep_folders(pool, [job], lambda *_: None)
    assert future.result() == ["old"]
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {"a", "b/c"}


def test_the_last_file_comes_last(tmp_path: Path) -> None:
    (tmp_path / "z").mkdir()  # so that the file z can't be written
    job = FolderJob(partial(write, ["a", "y", "z"]), tmp_path, "a")
    with ThreadPoolExecutor() as pool:
        ((_, future),) = sweep_folders(pool, [job], lambda *_: None)
    assert "it is a directory" in str(failure(future))
    assert not (tmp_path / "a").exists()


def test_a_file_outside_of_the_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.folder_jobs._read_files", lambda _folder: {"../a": b""})
    with ThreadPoolExecutor() as pool:
        job = FolderJob(partial(write, []), tmp_path / "job", "a")
        ((_, future),) = sweep_folders(pool, [job], lambda *_: None)
    assert "outside of its folder" in str(failure(future))
    assert not list(tmp_path.iterdir())
