"""The process of one check: `python -m holdfast.checkers.job FOLDER LOCK`.

It outlives the service that started it, and leaves its report in the folder. It ends, with all that
it started, at the deadline of its sample or when its plan is removed.
"""

import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import NoReturn

from holdfast.checkers import codec, registry
from holdfast.checkers.interface import Finding, Place, Report, Running
from holdfast.checkers.job_folder import JobFolder, Plan
from holdfast.checkers.process_checker import ProcessChecker, now, timed_out, without_result
from holdfast.errors import HoldfastError, InputError, UnreachableError

NICENESS = 10
WATCH_SECONDS = 0.5
PROGRESS_SECONDS = 0.5


def main(folder: str, lock: int) -> None:
    os.set_inheritable(lock, False)  # or programs that outlive this process would hold it
    job = JobFolder(Path(folder))
    try:
        plan = job.read_plan()
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    os.nice(NICENESS)
    _Run(job, plan).run()


class _Run:
    """One run of a job; its end, whoever comes to it first, is the end of the process."""

    def __init__(self, job: JobFolder, plan: Plan) -> None:
        self._job, self._plan = job, plan
        self._began = now()
        self._ending = threading.Lock()
        self._next_progress = 0.0

    def run(self) -> NoReturn:
        threading.Thread(target=self._watch, daemon=True).start()
        _silence(sys.stderr.fileno())
        self._end(self._check())

    def _check(self) -> Report:
        try:
            checker = _open(self._plan.kind, self._job.place(self._plan))
            checker.scratch = self._job.make_scratch()
            return _sound(checker.run(self._plan.sample, self._show_progress), self._plan.kind)
        except UnreachableError as error:
            return self._without_result(Finding.UNREACHABLE, str(error))
        except HoldfastError as error:
            return self._without_result(Finding.UNKNOWN, str(error))
        except Exception as error:  # noqa: BLE001 - of a package that is not ours
            reason = f"the check failed: {type(error).__name__}: {error}"
            return self._without_result(Finding.UNKNOWN, reason, traceback.format_exc())

    def _without_result(self, finding: Finding, reason: str, words: str = "") -> Report:
        return without_result(finding, reason, began=self._began, ended=now(), words=words)

    def _show_progress(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next_progress:
            self._job.write_progress(Running(done, total))
            self._next_progress = time.monotonic() + PROGRESS_SECONDS

    def _watch(self) -> None:
        while self._job.is_planned:
            left = (self._plan.sample.deadline - now()) / 1000
            if left <= 0:
                self._end(timed_out(self._plan.sample, self._plan.began))
            time.sleep(min(left, WATCH_SECONDS))
        self._end(None)

    def _end(self, report: Report | None) -> NoReturn:
        """End all that was started, write the report and exit; whoever comes second waits."""
        with self._ending:
            try:
                self._job.kill()
                if report is not None:
                    self._job.write_report(report)
            except HoldfastError as error:
                self._job.write_error(error)
            finally:
                os._exit(0)


def _open(kind: str, place: Place) -> ProcessChecker:
    checker = registry.open_checker(kind, place)
    if not isinstance(checker, ProcessChecker):
        raise InputError(f"the auditor {kind!r} is opened as another one than that of this check")
    return checker


def _sound(report: Report, kind: str) -> Report:
    """Return the report if it holds what its type promises, which nobody has checked before."""
    content = codec.dump(codec.bound(report))
    return codec.load(Report, content, f"the report of the auditor {kind!r}")


def _silence(handle: int) -> None:
    """Send to nowhere what is written from now on: nobody bounds how much that is."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), handle)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
