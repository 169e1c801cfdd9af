"""Which services of a home are running: each holds a lock on a file in the home that names it.

The lock ends with its process, also with one that is killed. Hosts that share a database have a
home folder each, so the services of other hosts are not among these.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.words import when

MAX_SERVICES = 16  # of a home
_LOOKING = "serve.lock"  # held while a service looks for others and chooses its place


@dataclass(frozen=True)
class RunningService:
    """A process of `holdfast serve`; the time is milliseconds since 1970."""

    host: str
    process: int
    since: int

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, since {when(self.since)}"


@dataclass(frozen=True)
class Place:
    """The place of a service among those of its home."""

    number: int
    others: tuple[RunningService, ...]  # that ran when it started


@contextmanager
def announce_service(folder: Path, now: int, *, join: bool) -> Iterator[Place]:
    """Hold a place among the services of a home; if one runs already, refuse or join it."""
    with ExitStack() as stack:
        with open(folder / _LOOKING, "wb", opener=atomic.private) as looking:
            fcntl.flock(looking, fcntl.LOCK_EX)
            running = {number: _running(folder, number) for number in range(MAX_SERVICES)}
            others = tuple(service for service in running.values() if service is not None)
            if others and not join:
                raise InputError(
                    f"a service of this home runs already: {others[0]}; add --join to share its "
                    "work, or stop it first"
                )
            free = [number for number, service in running.items() if service is None]
            if not free:
                raise InputError(f"{MAX_SERVICES} services of this home run already, the most")
            file = stack.enter_context(open(_path(folder, free[0]), "wb", opener=atomic.private))
            fcntl.flock(file, fcntl.LOCK_EX)
            service = RunningService(socket.gethostname(), os.getpid(), now)
            file.write(json.dumps(asdict(service)).encode())
            file.flush()
        yield Place(free[0], others)


def is_service_running(folder: Path) -> bool:
    """Return whether a service of this home runs on this machine."""
    return any(_is_held(_path(folder, number)) for number in range(MAX_SERVICES))


def _is_held(path: Path) -> bool:
    """Return whether a process holds the lock of a file. Those who look don't disturb others."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def _path(folder: Path, number: int) -> Path:
    return folder / f"serve-{number}.lock"


def _running(folder: Path, number: int) -> RunningService | None:
    """Return the service at a place, unless it has ended."""
    try:
        with _path(folder, number).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return RunningService(**json.loads(file.read()))
    except FileNotFoundError:
        pass
    return None
