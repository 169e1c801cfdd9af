"""A checker whose checks run in a process of their own, which survives the service."""

import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, final

from holdfast.checkers import codec
from holdfast.checkers.interface import Extent, Finding, Place, Report, Running, Sample
from holdfast.checkers.job_folder import CHECKS, JobFolder, Plan
from holdfast.checkers.secret_options import refuse_secrets
from holdfast.errors import InputError, StorageError
from holdfast.words import plural

Progress = Callable[[int, int], None]  # units done, of how many

MAX_STARTS = 3  # of processes that leave no report
CANCEL_SECONDS = 30.0
RETRY_DELAY_SECONDS = 0.05


@dataclass(frozen=True)
class _Pending:
    """What identifies a check."""

    id: str
    began: int  # milliseconds since 1970
    sample: Sample


class ProcessChecker(ABC):
    """Subclasses say what there is and check a sample; when and where it runs is decided here.

    The job inherits the environment of the service. Programs that `run` starts are killed with it
    at the deadline, or when the check is cancelled: leave them its environment.
    """

    kind: ClassVar[str]  # by which the registry opens it again, in the process of the job

    def __init__(self, place: Place) -> None:
        refuse_secrets(place)
        self.place = place
        self.scratch = place.folder  # in a job: a folder of its own, which is removed with it

    @abstractmethod
    def extent(self) -> Extent: ...

    @abstractmethod
    def run(self, sample: Sample, on_progress: Progress) -> Report:
        """Check the sample, in the process of the job; it may be killed and called anew.

        UnreachableError is reported as UNREACHABLE, any other error as UNKNOWN.
        """

    @final
    def start(self, sample: Sample) -> bytes:
        return codec.dump(_Pending(secrets.token_hex(16), now(), sample))

    @final
    def poll(self, pending: bytes) -> Report | Running:
        check = _load(pending)
        job = self._job(check)
        if report := job.report():
            return report
        if now() >= check.sample.deadline:
            return _stop_late(job, check)
        with job.lock() as lock:
            if report := job.report():  # it may have ended a moment ago
                return report
            if lock is None:
                return job.progress()
            if job.starts() >= MAX_STARTS:
                return _give_up(job, check)
            job.launch(self._plan(check), lock)
        return Running()

    @final
    def cancel(self, pending: bytes) -> None:
        job = self._job(_load(pending))
        give_up = time.monotonic() + CANCEL_SECONDS
        while job.path.exists():
            job.kill()
            with job.lock() as lock:
                if lock is not None:
                    job.remove()
                    return
            if time.monotonic() >= give_up:
                raise StorageError(f"can't stop the check in {job.path}: its process does not end")
            time.sleep(RETRY_DELAY_SECONDS)

    @final
    def kill_job(self, pending: bytes) -> None:
        """Kill the process of the check, as a crash would; the next poll starts it again."""
        self._job(_load(pending)).kill()

    def _job(self, check: _Pending) -> JobFolder:
        return JobFolder(self.place.folder / CHECKS / check.id)

    def _plan(self, check: _Pending) -> Plan:
        return Plan(self.kind, self.place.address, self.place.options, check.began, check.sample)


def now() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def without_result(
    finding: Finding, reason: str, *, began: int, ended: int, words: str = "", tool: str = ""
) -> Report:
    """Return the report of a check that says nothing about the data."""
    return Report(
        finding=finding,
        reason=reason,
        units=0,
        checked=0,
        damaged=(),
        verified=(),
        read_bytes=0,
        requests=0,
        began=began,
        ended=ended,
        tool=tool,
        words=words,
    )


def timed_out(sample: Sample, began: int) -> Report:
    """Return the report of a check that was stopped; it is the same whoever stopped it."""
    reason = "the check did not end in time"
    return without_result(Finding.UNKNOWN, reason, began=began, ended=sample.deadline)


def _stop_late(job: JobFolder, check: _Pending) -> Report:
    job.kill()
    late = timed_out(check.sample, check.began)
    with suppress(StorageError), job.lock() as lock:
        if report := job.report():
            return report
        if lock is not None:
            job.write_report(late)
    return late


def _give_up(job: JobFolder, check: _Pending) -> Report:
    words = job.errors()
    reason = f"the process of the check ended {plural(MAX_STARTS, 'time')} without a report"
    if words:
        reason += f": {words.splitlines()[-1]}"
    report = without_result(Finding.UNKNOWN, reason, began=check.began, ended=now(), words=words)
    job.write_report(report)
    return codec.bound(report)


def _load(pending: bytes) -> _Pending:
    check = codec.load(_Pending, pending, "the note of a check")
    if not re.fullmatch("[0-9a-f]{32}", check.id):
        raise InputError("the note of a check names no check of ours")
    return check
