"""The folder of one check: its plan, its lock, how far it is, and its report.

The process of the job holds the lock for as long as it lives, so nobody has to ask whether a
process with a certain number is still the same.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from holdfast import atomic
from holdfast.checkers import codec
from holdfast.checkers.interface import Place, Report, Running, Sample
from holdfast.checkers.sessions import MARK, kill_job
from holdfast.errors import MalformedError, StorageError

T = TypeVar("T")

CHECKS = "checks"  # the folder of a place that holds one folder for each check
_PLAN, _LOCK, _STARTS = "plan.json", "lock", "starts"
_PROGRESS, _REPORT, _ERRORS = "progress.json", "report.json", "errors.txt"
_SCRATCH = "scratch"
MAX_ERROR_BYTES = 64 << 10  # of which the last words are taken

_children: set[int] = set()  # processes of jobs that this one started, to be reaped


@dataclass(frozen=True)
class Plan:
    """What the process of a job has to know. Nothing in it is secret."""

    kind: str
    address: str
    options: Mapping[str, str]
    began: int  # milliseconds since 1970
    sample: Sample


class JobFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._id = path.name

    def place(self, plan: Plan) -> Place:
        return Place(plan.address, plan.options, self.path.parent.parent)

    def read_plan(self) -> Plan:
        path = self.path / _PLAN
        try:
            return codec.load(Plan, path.read_bytes(), str(path))
        except OSError as error:
            raise StorageError(f"can't read {path}: {error.strerror}") from error

    @property
    def is_planned(self) -> bool:
        return (self.path / _PLAN).exists()

    @contextmanager
    def lock(self) -> Iterator[int | None]:
        """Hold the lock and yield its handle, or nothing if a job or another poller holds it."""
        atomic.make_directory(self.path, mode=atomic.PRIVATE_FOLDER)
        try:
            file = open(self.path / _LOCK, "ab", opener=atomic.private)  # noqa: SIM115 - see below
        except OSError as error:
            raise StorageError(f"can't write in {self.path}: {error.strerror}") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield file.fileno() if os.fstat(file.fileno()).st_nlink else None

    def launch(self, plan: Plan, lock: int) -> None:
        """Start the process of the job; it takes over the lock, and does not end with this one."""
        if self.starts():
            self.kill()  # what an earlier process left running
        self._write(_PLAN, codec.dump(plan))
        self._write(_STARTS, str(self.starts() + 1).encode())
        _reap()
        command = [sys.executable, "-P", "-m", "holdfast.checkers.job", str(self.path), str(lock)]
        try:
            with open(self.path / _ERRORS, "wb", opener=atomic.private) as errors:
                child = subprocess.Popen(  # noqa: S603 - our own module, by an argument list
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env={**os.environ, MARK: self._id},
                    pass_fds=[lock],
                    start_new_session=True,
                )
        except OSError as error:
            raise StorageError(f"can't start a check in {self.path}: {error.strerror}") from error
        _children.add(child.pid)
        child.returncode = 0  # nobody waits for it, and it need not end before this process

    def starts(self) -> int:
        """Return how many processes have been started for this job."""
        with suppress(OSError, ValueError):
            return int((self.path / _STARTS).read_bytes())
        return 0

    def report(self) -> Report | None:
        """Return the report if there is one; one that the disk damaged is none."""
        return self._read(Report, _REPORT)

    def write_report(self, report: Report) -> None:
        self._write(_REPORT, codec.dump(codec.bound(report)))

    def progress(self) -> Running:
        return self._read(Running, _PROGRESS) or Running()

    def write_progress(self, progress: Running) -> None:
        """Write how far the job is; it is lost with the power, and nobody minds."""
        draft = self.path / f".{_PROGRESS}.part"
        with suppress(OSError):
            with open(draft, "wb", opener=atomic.private) as file:
                file.write(codec.dump(progress))
            draft.replace(self.path / _PROGRESS)

    def write_error(self, error: Exception) -> None:
        with suppress(OSError):
            (self.path / _ERRORS).write_text(f"{error}\n")

    def errors(self) -> str:
        """Return what the last process said before it ended without a report, the end of it."""
        with suppress(FileNotFoundError), (self.path / _ERRORS).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_ERROR_BYTES))
            return file.read().decode(errors="replace").strip()
        return ""

    def make_scratch(self) -> Path:
        """Return an empty folder for files that a run needs."""
        path = self.path / _SCRATCH
        shutil.rmtree(path, ignore_errors=True)
        atomic.make_directory(path, mode=atomic.PRIVATE_FOLDER)
        return path

    def kill(self) -> None:
        """Kill the process of the job, and all that it started."""
        kill_job(self._id)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        _reap()

    def _read(self, kind: type[T], name: str) -> T | None:
        path = self.path / name
        try:
            return codec.load(kind, path.read_bytes(), str(path))
        except (FileNotFoundError, NotADirectoryError, MalformedError):
            return None
        except OSError as error:
            raise StorageError(f"can't read {path}: {error.strerror}") from error

    def _write(self, name: str, content: bytes) -> None:
        atomic.write(self.path / name, content, mode=atomic.PRIVATE)


def _reap() -> None:
    for process in [*_children]:
        try:
            ended, _ = os.waitpid(process, os.WNOHANG)
        except ChildProcessError:  # somebody else did it
            ended = process
        if ended:
            _children.discard(process)
