"""The output of a program, of which only the end is kept, however much it is."""

import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import IO

from holdfast.errors import StorageError

KEPT_BYTES = 1 << 20
_CHUNK_BYTES = 64 << 10
_DRAIN_SECONDS = 5.0  # for output that a process outside of the program's group still holds open


@dataclass
class Tail:
    """The end of a stream, and how long all of it was."""

    keep: int = KEPT_BYTES
    total: int = 0
    _chunks: deque[bytes] = field(default_factory=deque)
    _kept: int = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._kept += len(chunk)
        self._chunks.append(chunk)
        while self._kept - len(self._chunks[0]) >= self.keep:
            self._kept -= len(self._chunks.popleft())

    def content(self) -> bytes:
        return b"".join(self._chunks)

    def end(self, length: int) -> str:
        """Return that many bytes of the end as a text."""
        return self.content()[-length:].decode(errors="replace")

    def drain(self, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), _CHUNK_BYTES):
            self.add(chunk)


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, or minus the signal that killed it, and its output."""

    code: int
    output: Tail
    errors: Tail


def run_program(
    command: Sequence[str], environment: Mapping[str, str], keep: int = KEPT_BYTES
) -> Ended:
    """Run a program to its end, in a process group of its own, which ends with it.

    Of what it prints on stdout the last `keep` bytes are kept.
    """
    try:
        child = subprocess.Popen(  # noqa: S603 - an argument list, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            process_group=0,
        )
    except OSError as error:
        raise StorageError(f"can't run {command[0]}: {error.strerror}") from error
    output, errors = Tail(keep), Tail()
    with child:
        streams = ((output, child.stdout), (errors, child.stderr))
        readers = [Thread(target=tail.drain, args=(pipe,), daemon=True) for tail, pipe in streams]
        for reader in readers:
            reader.start()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # its number stays its own
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        for reader in readers:
            reader.join(_DRAIN_SECONDS)
    return Ended(child.returncode, output, errors)
