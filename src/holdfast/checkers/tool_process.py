"""Runs the programs of others that check repositories: which one it is, and what it prints.

A program gets an argument list and no shell, a process group of its own, nothing to read, and an
environment in which its messages are English. However much it prints, only the beginning and the
end are kept; lines that matter are handed over while it runs.
"""

import errno
import math
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from holdfast.checkers.interface import MAX_WORDS
from holdfast.checkers.sessions import MARK
from holdfast.errors import InputError, StorageError, UnreachableError

MAX_LINE_BYTES = 256 << 10  # of a longer line the beginning is handed over
GRACE_SECONDS = 5.0  # between SIGTERM, at which tools release their locks, and SIGKILL
PROBE_SECONDS = 60.0
MARGIN_SECONDS = 150.0
_DRAIN_SECONDS = 2.0  # for output that a process outside of the group still holds open
_CHUNK_BYTES = 64 << 10
_HEAD_BYTES, _TAIL_BYTES = 8 << 10, 16 << 10
_TICK_SECONDS = 0.2

_PASSWORD = re.compile(r"(://[^/@\s:]*:)[^/@\s]+@")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_ANY_LINE = re.compile(rb"^[^\n]+$", re.MULTILINE)

OnLine = Callable[[str], bool]  # called with a line; True stops the program


@dataclass(frozen=True)
class Tool:
    """A program that is installed."""

    name: str
    path: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


@dataclass(frozen=True)
class Requirement:
    """Which program is needed, and where it comes from."""

    name: str
    package: str  # of Debian
    version: tuple[int, ...]  # the least
    version_argument: str


@dataclass
class Excerpt:
    """The beginning and the end of what a program printed, and how much it was."""

    total: int = 0
    _head: bytes = b""
    _tail: bytes = b""

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = _HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail = (self._tail + chunk)[-_TAIL_BYTES:]

    def text(self, secrets: Collection[str] = ()) -> str:
        """Return it as a report may keep it: short, printable and without secrets."""
        left_out = self.total - len(self._head) - len(self._tail)
        parts = (_printable(part).strip() for part in self._parts(left_out))
        head, tail = (hide_secrets(part, secrets) for part in parts)
        if not left_out and len(head) <= MAX_WORDS:
            return head
        note = f"\n[… of {self.total:,} bytes, the middle is left out …]\n"
        room = MAX_WORDS - len(note)
        head, tail = head[: room // 2], tail or head
        return head + note + tail[len(head) + len(note) - MAX_WORDS :]

    def _parts(self, left_out: int) -> tuple[bytes, bytes]:
        """Return both ends; a secret or a character that spans them is not cut."""
        return (self._head, self._tail) if left_out else (self._head + self._tail, b"")

    def last_line(self) -> str:
        lines = [line.strip() for line in self.text().splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, or minus the signal that killed it."""

    code: int
    words: Excerpt
    is_late: bool = False  # it was stopped at the deadline
    is_stopped: bool = False  # it was stopped because of a line that it printed


def find_tool(required: Requirement, program: str | None = None) -> Tool:
    """Return the program that is installed, or raise InputError with its cure."""
    path = shutil.which(program or required.name)
    cure = f"install Debian's package {required.package}, or give its path by the option program"
    if path is None:
        raise InputError(f"there is no program {program or required.name}: {cure}")
    ended = run_tool(
        [path, required.version_argument],
        tool_environment(),
        deadline=time.monotonic() + PROBE_SECONDS,
    )
    found = _VERSION.search(ended.words.text())
    if ended.code or found is None:
        raise InputError(f"{path} does not say its version, so it is not {required.name}: {cure}")
    tool = Tool(required.name, path, tuple(map(int, found[0].split("."))))
    if tool.version < required.version:
        least = ".".join(map(str, required.version))
        raise InputError(f"{path} is {tool}, which is too old: {least} or later is needed; {cure}")
    return tool


def tool_environment(
    prefix: str = "", kept: Collection[str] = (), **variables: str
) -> dict[str, str]:
    """Return the environment for a tool.

    It is ours, with credentials of clouds and agents, but without our own variables, Python's, and
    those that begin with `prefix` and are not `kept`: they would change what the tool does.
    """
    dropped = ("HOLDFAST_", "PYTHON", "LC_", *((prefix,) if prefix else ()))
    rest = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(dropped) or name in kept or name == MARK
    }
    return {**rest, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "LANGUAGE": "C", **variables}


def run_tool(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    deadline: float,
    on_line: OnLine | None = None,
    lines: re.Pattern[bytes] = _ANY_LINE,
    max_lines: float = math.inf,
    output: IO[bytes] | None = None,
    folder: Path | None = None,
) -> Ended:
    """Run a tool to its end, or stop it and all that it started at the deadline.

    The deadline is a time of `time.monotonic`. Lines that match `lines`, of both streams, are
    handed over while the tool runs, not more than `max_lines` of them. `output` takes all of the
    standard output.
    """
    try:
        child = subprocess.Popen(  # noqa: S603 - an argument list, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=folder or "/",
            process_group=0,
        )
    except OSError as error:
        raise StorageError(f"can't run {command[0]}: {error.strerror}") from error
    with child, _Pump(child, deadline, on_line, lines, max_lines) as pump:
        try:
            pump.run()
        except BaseException:
            pump.kill()
            raise
    return Ended(child.returncode, pump.words, pump.is_late, pump.is_stopped)


def hide_secrets(text: str, secrets: Collection[str]) -> str:
    """Return the text without these secrets, and without passwords in addresses."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return _PASSWORD.sub(r"\1***@", text)


def monotonic_deadline(deadline: int, margin: float = 0.1) -> float:
    """Return a deadline in milliseconds since 1970 as a time of `time.monotonic`.

    It lies a share of the time that is left earlier, but not many seconds, so that what was learnt
    until then can still be reported.
    """
    left = deadline / 1000 - time.time()
    return time.monotonic() + left - margin * min(max(left, 0.0), MARGIN_SECONDS)


def read_secret(options: Mapping[str, str]) -> str | None:
    """Return the secret that `password-file` or `password-env` names, if an option is given."""
    path, variable = options.get("password-file"), options.get("password-env")
    if path and variable:
        raise InputError("give password-file or password-env, not both")
    if variable:
        if not os.environ.get(variable):
            raise InputError(f"the variable {variable} of the option password-env is not set")
        return os.environ[variable]
    if not path:
        return None
    if not Path(path).is_absolute():
        raise InputError(f"give the whole path of the password-file {path}")
    try:
        return Path(path).read_text(errors="replace").splitlines()[0]
    except OSError as error:
        raise InputError(f"can't read the password-file {path}: {error.strerror}") from error
    except IndexError:
        raise InputError(f"the password-file {path} is empty") from None


def check_options(kind: str, options: Mapping[str, str], known: Collection[str]) -> None:
    """Raise InputError for an option that a kind does not have."""
    for name in options:
        if name not in known:
            raise InputError(f"{kind} has no option {name!r}: there are {', '.join(sorted(known))}")


def is_unreadable(path: Path, control: Path) -> bool:
    """Return whether the disk fails to read a file, and reads another one before and after it."""
    return _reads(control) and not _reads(path) and _reads(control)


def _reads(path: Path) -> bool:
    """Return whether a file can be read; a cause other than the disk counts as if it could."""
    try:
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass
    except OSError as error:
        if path.exists() and error.errno == errno.EIO:
            return False
        raise UnreachableError(f"can't read {path}: {error.strerror}") from error
    return True


@dataclass
class _Lines:
    """Splits a stream into the lines that match."""

    pattern: re.Pattern[bytes]
    _rest: bytes = b""

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the lines that are whole by now; no bytes are the end of the stream."""
        text = self._rest + chunk
        end = text.rfind(b"\n") + 1 if chunk else len(text)
        self._rest = text[end : end + MAX_LINE_BYTES]
        for line in self.pattern.finditer(text, 0, end):
            yield line[0].rstrip(b"\r").decode(errors="replace")


@dataclass
class _Pump:
    """Takes what a program prints until it has ended."""

    child: subprocess.Popen[bytes]
    deadline: float
    on_line: OnLine | None
    pattern: re.Pattern[bytes]
    lines_left: float
    words: Excerpt = field(default_factory=Excerpt)
    is_late: bool = False
    is_stopped: bool = False
    _ended_at: float | None = None
    _terminated_at: float | None = None

    def __enter__(self) -> Self:
        self._selector = selectors.DefaultSelector()
        for stream in (self.child.stdout, self.child.stderr):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, _Lines(self.pattern))
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def run(self) -> None:
        while not self._is_over():
            open_streams = bool(self._selector.get_map())
            for key, _ in self._selector.select(_TICK_SECONDS if open_streams else 0.02):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                self._take(chunk, key.data)
                if not chunk:
                    self._selector.unregister(key.fileobj)
            self._watch()

    def _take(self, chunk: bytes, lines: _Lines) -> None:
        self.words.add(chunk)
        if self.on_line is None or self.lines_left <= 0:
            return
        for line in lines.feed(chunk):
            self.lines_left -= 1
            self.is_stopped = self.on_line(line) or self.is_stopped

    def _watch(self) -> None:
        now = time.monotonic()
        if self._ended_at is None and self._has_ended():
            self._ended_at = now
            self.kill()
        if self._ended_at is not None:
            return
        self.is_late = self.is_late or (now >= self.deadline and not self.is_stopped)
        if not (self.is_late or self.is_stopped):
            return
        if self._terminated_at is None:
            self._terminated_at = now
            self._signal(signal.SIGTERM)
        elif now >= self._terminated_at + GRACE_SECONDS:
            self.kill()

    def _is_over(self) -> bool:
        if self._ended_at is None:
            return False
        return not self._selector.get_map() or time.monotonic() >= self._ended_at + _DRAIN_SECONDS

    def _has_ended(self) -> bool:
        """Return whether the program has ended; its number stays its own until it is waited for."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.child.pid, options) is not None

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, number)


def _printable(content: bytes) -> str:
    """Return text in which only line ends are left of what is no visible character."""
    text = content.decode(errors="backslashreplace")
    return "".join(
        mark if mark.isprintable() or mark == "\n" else mark.encode("unicode_escape").decode()
        for mark in text
    )
