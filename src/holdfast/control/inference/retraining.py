"""Retraining from the service: when it is due, its command runs as a process of its own.

The service keeps running and needs none of training's packages. One home has one retraining at a
time: the command holds a lock, and resumes an interrupted retraining.
"""

import fcntl
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog

from holdfast import atomic
from holdfast.control.settings.models import RetrainingSettings
from holdfast.errors import RefusedError

FOLDER = "retraining"
ORDER = "order.json"
STDERR = "stderr.log"
COMMAND = (sys.executable, "-c", "from holdfast.cli import main; main()", "policy", "retrain")
STOP_TIMEOUT_SECONDS = 30.0  # for a stopped command to stop its trainings
MAX_STDERR_BYTES = 1 << 20
log = structlog.get_logger()


class Retraining:
    """Supervises one home's retraining; `last` returns when the fleet was last fitted."""

    def __init__(
        self,
        home: Path,
        settings: RetrainingSettings,
        last: Callable[[], int | None],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._home, self._settings = home, settings
        self._last, self._command = last, command
        self._child: subprocess.Popen[bytes] | None = None
        self._begun = 0
        self._not_before = 0

    def look(self, now: int) -> str | None:
        """Start a retraining that is due, or check the one that runs.

        Return None if none has ended, why it failed, or an empty text if it succeeded.
        """
        if self._child is None:
            if self._due(now):
                self._begin(now)
            return None
        code = self._child.poll()
        if code is None:
            if now - self._begun <= self._settings.at_most:
                return None
            self.stop()
            return self._report_failure(now, "it took too long and was stopped")
        self._child = None
        if code == 0:
            log.info("the retraining has ended: its challenger runs in shadow")
            return ""
        return self._report_failure(now, self._last_line() or f"it ended with {code}")

    def stop(self) -> None:
        """Stop the process, if one runs; its results so far are kept."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None

    def _due(self, now: int) -> bool:
        if self._settings.every is None or now < self._not_before:
            return False
        if (self._home / FOLDER / ORDER).exists():  # one was interrupted
            return True
        last = self._last()
        return last is not None and now - last >= self._settings.every

    def _begin(self, now: int) -> None:
        place = self._home / FOLDER
        place.mkdir(mode=atomic.PRIVATE_FOLDER, exist_ok=True)
        with (place / STDERR).open("wb") as stderr:
            self._child = subprocess.Popen(  # noqa: S603 - our own command
                [*self._command, "--home", str(self._home), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        self._begun = now
        log.info("a retraining has begun", process=self._child.pid)

    def _report_failure(self, now: int, reason: str) -> str:
        self._not_before = now + self._settings.again
        log.warning("the retraining failed", reason=reason)
        return reason

    def _last_line(self) -> str:
        path = self._home / FOLDER / STDERR
        text = atomic.read(path, at_most=MAX_STDERR_BYTES).decode(errors="replace")
        lines = text.strip().splitlines()
        return lines[-1].removeprefix("holdfast: ") if lines else ""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a home's retraining, or refuse."""
    folder.mkdir(mode=atomic.PRIVATE_FOLDER, exist_ok=True)
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RefusedError(f"a retraining is under way in {folder}: wait for it") from error
        yield
