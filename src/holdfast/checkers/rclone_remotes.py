"""Two remotes of rclone: how rclone is called for them, and why a call failed."""

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast import jsontext
from holdfast.checkers import tool_process
from holdfast.checkers.interface import Place
from holdfast.checkers.tool_failure import Failure
from holdfast.checkers.tool_process import Ended, OnLine, Requirement, Tool, run_tool
from holdfast.errors import InputError

RCLONE = Requirement("rclone", "rclone", (1, 60), "version")
OPTIONS = ("against", "config", "frozen", "password-env", "password-file", "program")
LOW_LEVEL_RETRIES = 3  # of which each takes seconds
EXIT_NO_FOLDER, EXIT_TEMPORARY = 3, 5

_LINES = re.compile(rb"^(?:[=*!+-] [^\n]+|\{[^\n]*\},?)$", re.MULTILINE)
_SECRET = re.compile(r"pass(?:word)?\d?=|secret|token=|key=", re.IGNORECASE)
_AWAY = re.compile(
    r"connection re(?:fused|set)|no such host|dial tcp|timeout|timed out|network is unreachable"
    r"|unexpected EOF|broken pipe|no route to host|x509|tls:|couldn't connect|[Uu]nauthorized"
    r"|[Aa]ccess ?[Dd]enied|permission denied|[Ff]orbidden|status code: [45]|couldn't list files"
)
Mistake = tuple[str, str]  # what rclone says, and the cure
_MISTAKES: tuple[Mistake, ...] = (
    ("didn't find section in config file", "add the remote by rclone config"),
    ("didn't find backend called", "correct the name of the remote"),
    ("config file", "name it by the option config, and its password by password-file"),
)


@dataclass(frozen=True)
class Entry:
    """A file as a listing shows it."""

    size: int
    modified: float  # seconds since 1970


class Remotes:
    """`address` is what is checked, `against` is what it is compared with."""

    def __init__(self, place: Place) -> None:
        tool_process.check_options("rclone", place.options, OPTIONS)
        self._options = place.options
        self.address = _check_address(place.address, "the address")
        against = place.options.get("against", "")
        self.against = _check_address(against, "the option against")
        self.is_frozen = place.options.get("frozen", "no")
        if self.is_frozen not in {"yes", "no"}:
            raise InputError(f"the option frozen is yes or no, not {self.is_frozen!r}")
        self.folder = Path(self.address) if Path(self.address).is_absolute() else None
        self._secret = tool_process.read_secret(place.options)
        self._tool: Tool | None = None

    @property
    def tool(self) -> Tool:
        if self._tool is None:
            self._tool = tool_process.find_tool(RCLONE, self._options.get("program"))
        return self._tool

    def list_files(
        self,
        remote: str,
        deadline: float,
        only: Collection[str] | None = None,
        at: Path | None = None,
    ) -> dict[str, Entry]:
        """Return the files of a remote, except names with a line end, which can't be asked for."""
        files: dict[str, Entry] = {}

        def take(line: str) -> bool:
            record = _parse(line.rstrip(","))
            if record and "Path" in record and "\n" not in record["Path"]:
                files[record["Path"]] = Entry(record["Size"], _moment(record["ModTime"]))
            return False

        arguments = ["lsjson", "-R", "--files-only", "--no-mimetype", remote]
        if only is not None and at is not None:
            arguments += ["--files-from-raw", str(_write_names(only, at))]
        ended = self._run(arguments, deadline, take)
        if ended.code:
            raise self.explain(ended).error()
        return files

    def check(
        self, names: Collection[str], scratch: Path, deadline: float, on_line: OnLine
    ) -> Ended:
        """Read these files on both sides and compare them."""
        path = _write_names(names, scratch / "names.txt")
        arguments = ["check", self.against, self.address, "--download", "--combined", "-"]
        flags = ["--use-json-log", "--log-level", "INFO"]
        return self._run([*arguments, *flags, "--files-from-raw", str(path)], deadline, on_line)

    def explain(self, ended: Ended) -> Failure:
        """Return why a call that says nothing about the data failed."""
        text, last = ended.words.text(), ended.words.last_line()
        reason = self.hide_secrets(last)
        if ended.is_late and not is_away(text):
            return Failure("rclone did not end in time", is_away=False)
        for said, cure in _MISTAKES:
            if said in last:
                return Failure(f"{reason}: {cure}", is_mistake=True)
        if ended.code == EXIT_NO_FOLDER:
            return Failure(f"{reason}: correct the address", is_mistake=True)
        if ended.code == EXIT_TEMPORARY or is_away(text):
            return Failure(f"the remote can't be reached: {reason}")
        return Failure(f"rclone failed with {ended.code}: {reason}", is_away=False)

    def hide_secrets(self, text: str) -> str:
        return tool_process.hide_secrets(text, self._secrets)

    def text(self, ended: Ended) -> str:
        return ended.words.text(self._secrets)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (self._secret,) if self._secret else ()

    def _run(self, arguments: Sequence[str], deadline: float, on_line: OnLine) -> Ended:
        config = self._options.get("config")
        flags = ["--ask-password=false", "--low-level-retries", str(LOW_LEVEL_RETRIES)]
        flags += ["--config", config] if config else []
        kept = [name for name in os.environ if name.startswith("RCLONE_CONFIG")]
        password = {"RCLONE_CONFIG_PASS": self._secret} if self._secret else {}
        return run_tool(
            [self.tool.path, *flags, *arguments],
            tool_process.tool_environment("RCLONE_", kept, **password),
            deadline=deadline,
            on_line=on_line,
            lines=_LINES,
        )


def read_record(line: str) -> dict[str, Any] | None:
    """Return a message of rclone's log, if the line is one."""
    return _parse(line) if line.startswith("{") else None


def _parse(line: str) -> dict[str, Any] | None:
    try:
        record = jsontext.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _moment(text: str) -> float:
    """Return a time of rclone's, which has up to nine decimals."""
    try:
        moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    except ValueError:
        return 0.0
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


def _write_names(names: Collection[str], path: Path) -> Path:
    path.write_text("".join(f"{name}\n" for name in names))
    return path


def _check_address(address: str, name: str) -> str:
    if not address:
        raise InputError(
            f"{name} is missing: give a remote of rclone, or the whole path of a folder"
        )
    if address.startswith("-"):
        raise InputError(f"{name} is no remote: {address}")
    if address.startswith(":") and _SECRET.search(address):
        raise InputError(
            f"{name} holds a secret, which would be shown and stored: leave it to rclone's "
            "configuration"
        )
    if not Path(address).is_absolute() and ":" not in address:
        raise InputError(f"{name} {address} is no remote: give the whole path of the folder")
    return address


def is_away(text: str) -> bool:
    """Return whether a message says that a remote can't be reached, or lets nobody in."""
    return _AWAY.search(text) is not None
