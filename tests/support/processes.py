"""Processes that tests start: each ends with its context, and with the tests at the latest."""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import Popen
from typing import Any

GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL


def restore_interrupts() -> None:
    """Let Ctrl-C interrupt this process again, and so those it starts.

    `nohup`, a shell without job control and many CI runners start us with SIGINT ignored. Children
    would inherit that, and every test of Ctrl-C would fail.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run_python(program: str) -> str:
    """Run a program in a fresh interpreter; return what it printed."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def running(
    command: Sequence[str | Path], kind: type[Popen[str]] = Popen, **options: Any
) -> Iterator[Popen[str]]:
    """Run a program at the head of its own session; end the whole session with the context.

    The options are those of Popen. Without `stdin` the program reads from nowhere.
    """
    options = {"stdin": subprocess.DEVNULL, "text": True, **options}
    with kind(command, start_new_session=True, **options) as process:
        release = end_with_tests(process=process.pid)
        try:
            yield process
        finally:
            _end(process)
            release()


@dataclass(frozen=True)
class ForkedProcess:
    """A process that another one has forked, at the head of its own session."""

    pid: int
    descriptor: int

    def poll(self) -> int | None:
        return 0 if self._has_ended(0.0) else None

    def wait(self, timeout: float | None = None) -> None:
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, seconds: float | None) -> bool:
        watch = select.poll()
        watch.register(self.descriptor, select.POLLIN)
        return bool(watch.poll(None if seconds is None else 1000 * seconds))


@contextmanager
def adopted(pid: int) -> Iterator[ForkedProcess]:
    """Yield a process that was forked for us; end its whole session with the context."""
    process = ForkedProcess(pid, os.pidfd_open(pid))
    release = end_with_tests(process=pid)
    try:
        yield process
    finally:
        _end(process)
        release()
        os.close(process.descriptor)


def _end(process: Popen[str] | ForkedProcess) -> None:
    if process.poll() is None:
        process.terminate()
        process.send_signal(signal.SIGCONT)  # a stopped process would not see the first signal
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end_with_tests(*, process: int | None = None, folder: Path | None = None) -> Callable[[], None]:
    """Name what must not outlive this process, even if this process is killed.

    A process is killed with its group. A folder is removed, and every process that has it in its
    command line is killed. Call what this returns once you have ended or removed it yourself.
    """
    entry = (process, str(folder) if folder else None)
    _write(_cleaner(), "add", *entry)
    return lambda: _write(_cleaner(), "remove", *entry)


def _write(cleaner: Popen[str], verb: str, process: int | None, folder: str | None) -> None:
    assert cleaner.stdin is not None
    cleaner.stdin.write(json.dumps([verb, process, folder]) + "\n")
    cleaner.stdin.flush()


def start_for_all_tests(command: Sequence[str | Path]) -> Popen[str]:
    """Start a program that reads and writes lines until the tests are over."""
    process = Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end_with_tests(process=process.pid)

    def stop() -> None:
        with process:
            process.kill()

    atexit.register(stop)
    return process


@cache
def _cleaner() -> Popen[str]:
    """Start the process that cleans up after this one, once."""
    program = Path(__file__).with_name("cleaner.py")
    command = [sys.executable, "-I", str(program), str(os.getpid())]
    process = Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def stop() -> None:
        with process:
            _write(process, "end", None, None)

    atexit.register(stop)
    return process


def process_tree(process: int) -> list[int]:
    """Return a process and all that it started, and they started."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(one for child in listed for one in process_tree(int(child)))]
