"""One borg repository: how borg is called for it, and why a call failed.

`borg check --repository-only` needs no passphrase and asks nothing: it neither reads the manifest
nor decides whether a repository that moved or is not encrypted may be used. So borg's variables
that answer such questions are not set; with them, an answer of ours would hold for backups, too.

It takes an exclusive lock. A backup that starts meanwhile waits as long as its own `--lock-wait`
says, which is a second unless it is given.
"""

import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.checkers import log_first, tool_process
from holdfast.checkers.borg_words import LINES, BorgWords
from holdfast.checkers.interface import Place
from holdfast.checkers.tool_failure import Failure
from holdfast.checkers.tool_process import Ended, Requirement, Tool, run_tool
from holdfast.errors import InputError

BORG = Requirement("borg", "borgbackup", (1, 2), "--version")
OPTIONS = ("lock-wait", "program", "remote-path", "rsh")
DEFAULT_LOCK_WAIT = "60"  # seconds
CALL_SECONDS = 600.0
MANIFEST = "0" * 64  # the object that every repository has
MAX_LINES = 5_000_000

_KEPT = tuple(f"BORG_{name}_DIR" for name in ("BASE", "CACHE", "CONFIG", "KEYS", "SECURITY"))
_LOG_FIRST = (sys.executable, "-I", log_first.__file__)
_LOCKED = ("Lock", "NotLocked")
_NO_REPOSITORY = ("Repository.DoesNotExist", "Repository.InvalidRepository", "Repository.Path")
_AWAY = re.compile(
    r"[Cc]onnection (?:closed|refused|reset|timed out)|Permission denied|No route to host"
    r"|Could not resolve|Broken pipe|Host key verification|Read-only file system"
)

OnWords = Callable[[BorgWords], None]  # called when there are more of them


class Repository:
    def __init__(self, place: Place) -> None:
        tool_process.check_options("borg", place.options, OPTIONS)
        self.address = place.address
        self.folder = _local_folder(place.address)
        self._options = place.options
        self._lock_wait = place.options.get("lock-wait", DEFAULT_LOCK_WAIT)
        if not re.fullmatch(r"\d{1,6}", self._lock_wait):
            raise InputError(f"the option lock-wait is a number of seconds, not {self._lock_wait}")
        self._tool: Tool | None = None

    @property
    def tool(self) -> Tool:
        if self._tool is None:
            tool = tool_process.find_tool(BORG, self._options.get("program"))
            if tool.version >= (2,):
                raise InputError(f"{tool} keeps repositories otherwise: install borg 1.2 or 1.4")
            self._tool = tool
        return self._tool

    def check(
        self,
        duration: int | None,
        deadline: float,
        words: BorgWords,
        on_words: OnWords = lambda _words: None,
    ) -> Ended:
        """Check for that many seconds from where the last such check stopped, or check all."""
        arguments = ["check", "--repository-only", "--debug"]
        if duration is not None:
            arguments += ["--max-duration", str(duration)]
        return self._run([*arguments, self.address], deadline, words, on_words)

    def touch(self, scratch: Path) -> None:
        """Read one object, as a sign that the repository can be reached."""
        words = BorgWords()
        target = scratch / "manifest"
        arguments = ["debug", "get-obj", self.address, MANIFEST, str(target)]
        ended = self._run(arguments, time.monotonic() + CALL_SECONDS, words)
        target.unlink(missing_ok=True)
        if ended.code:
            raise self.explain(ended, words).error()

    def position(self, deadline: float) -> str | None:
        """Return the last segment of the unfinished check, if there is one; of a local one."""
        lines: list[str] = []

        def take(line: str) -> bool:
            lines.append(line)
            return False

        command = self._command(["config", self.address, "last_segment_checked"])
        pattern = re.compile(rb"^\d+$", re.MULTILINE)
        run_tool(command, self._environment(), deadline=deadline, on_line=take, lines=pattern)
        return lines[0] if lines else None

    def set_position(self, segment: str | None, deadline: float) -> None:
        """Let the next partial check begin after this segment, or at the first one."""
        change = ["config", self.address, "last_segment_checked", segment or ""]
        if segment is None:
            change = ["config", "--delete", self.address, "last_segment_checked"]
        words = BorgWords()
        ended = self._run(change, deadline, words)
        if ended.code:
            raise self.explain(ended, words).error()

    def explain(self, ended: Ended, words: BorgWords) -> Failure:
        """Return why a call that says nothing about the data failed."""
        kinds = [kind for kind, _ in words.failures]
        said = [message for _, message in words.failures]
        reason = (said[0] if said else ended.words.last_line()).splitlines()[0]
        if any(kind.startswith(_LOCKED) for kind in kinds):
            return Failure(f"the repository is locked: {reason}")
        if ended.is_late:
            return Failure("borg did not end in time", is_away=False)
        if any(kind.startswith(_NO_REPOSITORY) for kind in kinds):
            return Failure(f"{reason} Correct the address, or run borg init", is_mistake=True)
        if any(kind.startswith("Connection") for kind in kinds) or _AWAY.search(ended.words.text()):
            return Failure(f"the repository can't be reached: {reason}")
        return Failure(f"borg failed with {ended.code}: {reason}", is_away=False)

    def _run(
        self,
        arguments: Sequence[str],
        deadline: float,
        words: BorgWords,
        on_words: OnWords = lambda _words: None,
    ) -> Ended:
        def take(line: str) -> bool:
            words.take(line)
            on_words(words)
            return False

        return run_tool(
            self._command(arguments),
            self._environment(),
            deadline=deadline,
            on_line=take,
            lines=LINES,
            max_lines=MAX_LINES,
        )

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [self.tool.path, "--log-json", "--lock-wait", self._lock_wait, *arguments]

    def _environment(self) -> dict[str, str]:
        shell = f"{shlex.join(_LOG_FIRST)} {self._options.get('rsh', 'ssh')}"
        remote = self._options.get("remote-path")
        return tool_process.tool_environment(
            "BORG_", _KEPT, BORG_RSH=shell, **({"BORG_REMOTE_PATH": remote} if remote else {})
        )


def _local_folder(address: str) -> Path | None:
    """Return where the repository lies, if that is a folder of this machine."""
    if not address or "::" in address:
        raise InputError("a borg repository needs an address, without an archive")
    path = Path(address.removeprefix("file://"))
    if path.is_absolute():
        return path
    if re.match(r"ssh://|[^/:]+:.", address):
        return None
    raise InputError(f"give the whole path of the repository {address}")
