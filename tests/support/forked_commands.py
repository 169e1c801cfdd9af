"""Commands that are forked from a process which has imported them, instead of started anew."""

import atexit
import json
import os
import socket
import sys
from functools import cache
from pathlib import Path
from select import select
from subprocess import Popen
from typing import Any

from tests.support.processes import end_with_tests

# What an interpreter reads when it starts.
AT_START = ("PYTHON", "LC_", "LANG", "TZ", "OPENBLAS", "OMP_", "LD_", "MALLOC")


class ForkedCommand(Popen[str]):
    """A process like any other to who holds it, but the starter's child."""

    def _execute_child(self, args: Any, *more: Any) -> None:
        folder, environment = more[4], more[5]
        pipes = more[9:15]
        request = {
            "command": [str(argument) for argument in args],
            "folder": str(folder),
            "environment": environment,
        }
        self._status, theirs = socket.socketpair()
        message = json.dumps(request).encode()
        with theirs:
            streams = (pipes[0], pipes[3], pipes[5])
            files = [file if file >= 0 else number for number, file in enumerate(streams)]
            socket.send_fds(_starter(), [message], [*files, theirs.fileno()])
        self.pid = int.from_bytes(self._read())
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _read(self) -> bytes:
        return self._status.recv(4, socket.MSG_WAITALL) or b"\0\0\0\x09"  # as if it was killed

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """Do for a child of the starter what `waitpid` does for one of ours."""
        if wait_flags & os.WNOHANG and not select([self._status], [], [], 0)[0]:
            return 0, 0
        status = int.from_bytes(self._read())
        self._status.close()
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        known: int | None = self.returncode
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if known is None and lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                lock.release()
        return self.returncode


def can_fork(environment: dict[str, str]) -> bool:
    """Tell whether a forked command is the same as one that is started with these variables.

    Under coverage it is not: each process writes what it reached when its interpreter ends.
    """
    if any(name.startswith("COV") for name in environment):
        return False
    return _at_start(environment) == _at_start(_environment())


def _at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


@cache
def _environment() -> dict[str, str]:
    """Return the variables of the starter, which are those of these tests when it started."""
    return dict(os.environ)


@cache
def _starter() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = Path(__file__).with_name("command_starter.py")
    command = [sys.executable, str(program), str(theirs.fileno())]
    with theirs:
        process = Popen(
            command, env=_environment(), pass_fds=[theirs.fileno()], start_new_session=True
        )
    release = end_with_tests(process=process.pid)

    def stop() -> None:
        ours.close()
        process.wait()
        release()

    atexit.register(stop)
    assert ours.recv(16) == b"ready"
    return ours
