"""Outlives the process that runs the tests, and removes what that one left behind.

A killed pytest ends no fixture: its PostgreSQL servers, nodes and chains would run for ever. It
names them here, line by line, as `tests.support.processes` writes them.
"""

import json
import os
import select
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 1.0


def main(parent: int) -> None:
    named: list[tuple[int | None, str | None]] = []
    for verb, process, folder in _lines(parent):
        if verb == "add":
            named.append((process, folder))
        elif verb == "remove":
            named.remove((process, folder))
        else:
            break
    for process, folder in reversed(named):
        if process is not None:
            _kill(process)
        if folder is not None:
            _clear(folder)


def _lines(parent: int) -> Iterator[tuple[str, int | None, str | None]]:
    """Yield what is written to us, all of it, until the end of the process that writes it.

    The end of the pipe is not enough: forked children of the tests hold it open, too.
    """
    while True:
        ended = os.getppid() != parent
        readable, _, _ = select.select([sys.stdin], [], [], 0 if ended else LOOK_SECONDS)
        if readable and (line := _read_line()):
            yield json.loads(line)
        elif readable or ended:
            return


def _read_line() -> bytes:
    """Read one line and not a byte more: what lies in a buffer of ours, `select` does not see."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


def _kill(process: int) -> None:
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(process, signal.SIGKILL)


def _clear(folder: str) -> None:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if folder.encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
