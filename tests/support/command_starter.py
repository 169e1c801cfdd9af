"""A process that has imported the commands, and forks one for each message that it reads.

An interpreter that starts and imports a command anew takes up to a second of a core. A command
that is forked runs as it would there: with its own session, folder, environment and streams, and
what it starts by `multiprocessing` starts as from the script.
"""

import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from select import select
from typing import Any

from holdfast.cli import main as run_command
from holdfast.cli.commands import COMMANDS, Entry, Group

MAX_MESSAGE_BYTES = 1 << 17
WITH_THREADS = ("learn", "paper", "train")  # what they use can't be forked
LATE = (  # what commands import when they need it
    "alembic.command",
    "holdfast.node.serving",
    "holdfast.web.app",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
)


def main() -> None:
    """Fork commands until nobody can ask for one; in a command return, and be that command."""
    for module in {*_modules(COMMANDS.values()), *LATE}:
        import_module(module)
    gc.freeze()
    requests = socket.socket(fileno=int(sys.argv[1]))
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    signal.set_wakeup_fd(woken.fileno())
    requests.sendall(b"ready")
    running: dict[int, socket.socket] = {}
    while True:
        readable, _, _ = select([requests, wake], [], [])
        if wake in readable:
            wake.recv(4096)
            _report_ends(running)
        if requests in readable:
            message, files, _, _ = socket.recv_fds(requests, MAX_MESSAGE_BYTES, 4)
            if not message:
                os._exit(0)
            asker = socket.socket(fileno=files.pop())
            if (pid := os.fork()) == 0:
                _become(json.loads(message), files, asker)
                for other in (requests, wake, woken, asker, *running.values()):
                    other.close()
                return
            running[pid] = asker
            for file in files:
                os.close(file)


def _modules(entries: Any) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, Group):
            yield from _modules(entry.commands.values())
        elif isinstance(entry, Entry):
            name = entry.target.partition(":")[0]
            if not name.startswith(WITH_THREADS):
                yield f"holdfast.cli.{name}"


def _report_ends(running: dict[int, socket.socket]) -> None:
    """Say of every command that has ended how it did."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as asker:
            asker.sendall(status.to_bytes(4))


def _become(request: Any, files: list[int], asker: socket.socket) -> None:
    """Be a command that was asked for, up to the point at which its script begins."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    asker.sendall(os.getpid().to_bytes(4))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.argv = request["command"]
    script = sys.modules["__main__"]
    script.__file__ = sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    sys.stdin, sys.stdout, sys.stderr = (_stream(number) for number in range(3))


def _stream(number: int) -> Any:
    """Open a stream as the interpreter does."""
    known = (sys.stdin, sys.stdout, sys.stderr)[number]
    return open(
        number,
        "r" if number == 0 else "w",
        1 if number == 2 or (number == 1 and os.isatty(1)) else -1,
        encoding=known.encoding,
        errors=known.errors,
        closefd=False,
    )


if __name__ == "__main__":
    main()
    run_command()
