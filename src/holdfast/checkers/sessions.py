"""The processes of a job: known by a mark in their environment, and killed together.

A process inherits the mark from the one that started it. So all that a job started is reached, also
after its own death, and a process that got its number is never mistaken for it.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

MARK = "HOLDFAST_CHECK"
MAX_ROUNDS = 100  # of killing; a process that waits for a disk may not end before that disk answers
ROUND_SECONDS = 0.02

_PROCESSES = Path("/proc")


def kill_job(job: str) -> None:
    """Kill every process that carries the mark of the job, and their sessions, but not this one."""
    for _ in range(MAX_ROUNDS):
        members = _members(job)
        if not members:
            return
        for process in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(ROUND_SECONDS)


def _members(job: str) -> list[int]:
    processes = {int(path.name): path for path in _PROCESSES.glob("[0-9]*")}
    sessions = {process: _session(path) for process, path in processes.items()}
    mark = f"{MARK}={job}".encode()
    marked = {process for process, path in processes.items() if mark in _environment(path)}
    theirs = {sessions[process] for process in marked} - {None}
    return [
        process
        for process, session in sessions.items()
        if session is not None
        and (process in marked or session in theirs)
        and process != os.getpid()
    ]


def _environment(path: Path) -> list[bytes]:
    with suppress(OSError):  # it has ended, or is another user's
        return (path / "environ").read_bytes().split(b"\0")
    return []


def _session(path: Path) -> int | None:
    """Return the session of a process, unless it has ended."""
    with suppress(OSError):
        fields = (path / "stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] not in {b"Z", b"X"}:
            return int(fields[3])
    return None
