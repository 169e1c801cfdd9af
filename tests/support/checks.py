"""Checks that tests start: samples, their ends, and the processes of their jobs."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.checkers import sessions
from holdfast.checkers.interface import Checker, Place, Report, Running, Sample
from holdfast.checkers.process_checker import now
from holdfast.checkers.registry import open_checker

PATIENCE_SECONDS = 120.0


def open_at(kind: str, address: str | Path, folder: Path, **options: str) -> Checker:
    return open_checker(kind, Place(str(address), options, folder))


def sample_of(*groups: str, units: int = 1, seconds: float = PATIENCE_SECONDS) -> Sample:
    return Sample(b"seed", len(groups) or units, groups, now() + round(1000 * seconds))


def sample_all(checker: Checker) -> Sample:
    extent = checker.extent()
    return sample_of(*(group.name for group in extent.groups), units=extent.units)


def end_of(checker: Checker, pending: bytes) -> Report:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while isinstance(answer := checker.poll(pending), Running):
        assert time.monotonic() < give_up, "the check does not end"
        time.sleep(0.02)
    return answer


def check(checker: Checker, sample: Sample | None = None) -> Report:
    """Check a sample, or all there is, to the end; leave nothing."""
    pending = checker.start(sample or sample_all(checker))
    report = end_of(checker, pending)
    checker.cancel(pending)
    return report


def wait_for(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < give_up, "what the test waits for does not come"
        time.sleep(0.02)


def is_alive(process: int) -> bool:
    return sessions._session(Path("/proc", str(process))) is not None


def kill_jobs(folder: Path) -> None:
    """Kill what checks in the folder of a place have left running."""
    for job in folder.glob("checks/*"):
        sessions.kill_job(job.name)


def job_process(folder: Path) -> int:
    """Return the process of the only job in the folder of a place."""
    (job,) = folder.glob("checks/*")
    (process,) = [
        process
        for process in sessions._members(job.name)
        if b"holdfast.checkers.job" in Path(f"/proc/{process}/cmdline").read_bytes()
    ]
    assert process != os.getpid()
    return process
