"""Runs a program, and passes on what it prints only after what it reports.

borg's messages from the other side of an SSH connection come by standard error, its answers by
standard output. As soon as an answer is there, borg reads no more messages, and what the check said
at last would be lost. This module stands between borg and ssh: `python log_first.py ssh HOST …`.
It imports nothing of ours, so that it starts fast.
"""

import os
import selectors
import subprocess
import sys
import time
from collections import deque

DELAY_SECONDS = 0.3  # by which an answer comes later than the last message
CHUNK_BYTES = 64 << 10


def main(command: list[str]) -> int:
    with subprocess.Popen(  # noqa: S603 - what borg would have run
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        _pass_on(child)
    return child.returncode


def _pass_on(child: subprocess.Popen[bytes]) -> None:
    answers: deque[bytes] = deque()
    due = 0.0
    with selectors.DefaultSelector() as selector:
        for stream, target in ((child.stdout, 1), (child.stderr, 2)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, target)
        while selector.get_map() or answers:
            wait = max(0.0, due - time.monotonic()) if answers else None
            for key, _ in selector.select(wait):
                chunk = os.read(key.fd, CHUNK_BYTES)
                due = time.monotonic() + DELAY_SECONDS
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.data == 1:
                    answers.append(chunk)
                else:
                    _write(2, chunk)
            while answers and time.monotonic() >= due:
                _write(1, answers.popleft())


def _write(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
