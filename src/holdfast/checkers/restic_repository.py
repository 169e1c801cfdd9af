"""One restic repository: how restic is called for it, and why a call failed.

Reading calls take no lock (`--no-lock`). restic's own check takes an exclusive one, and every
backup that starts during hours of reading would fail. Without a lock, a prune that runs at the same
time can remove packs that the index named a moment ago, so whatever is missing is looked up again
in a fresh index before it counts. With the option `lock=yes` restic locks, and waits for others.
"""

import json
import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from holdfast.checkers import tool_process
from holdfast.checkers.interface import Place
from holdfast.checkers.restic_words import ATTEMPT, LINES, CheckWords
from holdfast.checkers.tool_process import Ended, Excerpt, OnLine, Requirement, Tool, run_tool
from holdfast.errors import HoldfastError, InputError, StorageError, UnreachableError

RESTIC = Requirement("restic", "restic", (0, 14), "version")
OPTIONS = ("lock", "password-env", "password-file", "program", "repository-file")
PROGRESS_PER_SECOND = 2  # lines
MAX_LINES = 1_000_000  # of one check; progress of six days
MAX_INDEX_BYTES = 256 << 20
LIST_OUTAGE_SECONDS = 60.0
LOCK_WAIT, WAITS_FOR_LOCKS = "15m", (0, 16)

# restic reads these; all else of its own in the environment would change what is checked.
_KEPT = ("RESTIC_REST_USERNAME", "RESTIC_REST_PASSWORD", "RESTIC_CACERT", "RESTIC_TLS_CLIENT_CERT")
_PACK_NAME = re.compile("[0-9a-f]{64}")
_LISTED = re.compile(rb"^(?:[0-9a-f]{64}|(?:Load|List|Stat)\([^\n]*)$", re.MULTILINE)
_SCHEME = re.compile(r"[a-z0-9]+:")
_AWAY = re.compile(
    r"connection re(?:fused|set)|no such host|dial tcp|timeout|timed out|network is unreachable"
    r"|unexpected EOF|broken pipe|no route to host|x509|tls:|ssh exited|sftp session|rclone stderr"
    r"|[Uu]nauthorized|[Aa]ccess ?[Dd]enied|[Pp]ermission denied|[Ff]orbidden|status code"
    r"|unexpected HTTP response|server response|transport endpoint|stale file handle|context dead"
)


@dataclass(frozen=True)
class Trouble:
    """Why restic could not do its work. It never says anything about the data."""

    reason: str
    cure: str = ""
    is_mistake: bool = False  # of the operator
    is_away: bool = True

    def error(self) -> HoldfastError:
        text = f"{self.reason}: {self.cure}" if self.cure else self.reason
        if self.is_mistake:
            return InputError(text)
        return UnreachableError(text) if self.is_away else StorageError(text)


@dataclass
class Outage:
    """Knows when nothing but failing connections has been seen for long.

    restic tries each file for up to 15 minutes: all packs that are left would take days.
    """

    seconds: float
    is_declared: bool = False
    _done: int = 0
    _since: float | None = None

    def lasts(self, line: str, done: int = 0) -> bool:
        """Return whether it lasts too long, by a line and how much was done until then."""
        now = time.monotonic()
        if done != self._done:
            self._done, self._since = done, None
        elif self._since is None and ATTEMPT.match(line) and is_away(line):
            self._since = now
        self.is_declared = self._since is not None and now > self._since + self.seconds
        return self.is_declared


class Repository:
    def __init__(self, place: Place) -> None:
        self._options = place.options
        self._own_options = [name for name in place.options if "." in name]
        tool_process.check_options("restic", place.options, (*OPTIONS, *self._own_options))
        self.address = place.address
        self.folder = _local_folder(place.address)
        self._lock = _is_yes(place.options, "lock")
        secret = tool_process.read_secret(place.options)
        if secret is None:
            raise InputError(
                "restic needs a password: name its file by --password-file, or a variable of the "
                "environment by --password-env"
            )
        self._secret = secret
        self._tool: Tool | None = None

    @property
    def tool(self) -> Tool:
        """Return the restic that is installed now; it may be another one at the next check."""
        if self._tool is None:
            self._tool = tool_process.find_tool(RESTIC, self._options.get("program"))
        return self._tool

    def pack_path(self, pack: str) -> Path | None:
        """Return the file of a pack, if the repository lies on this machine."""
        return self.folder / "data" / pack[:2] / pack if self.folder else None

    def check(
        self, subset: str | None, cache: Path, deadline: float, on_line: OnLine, words: CheckWords
    ) -> Ended:
        """Check the structure, and read the packs of a subset such as 3/256.

        All calls with one cache read index and trees from the repository once.
        """
        arguments = ["check", "--with-cache", "--cache-dir", str(cache)]
        if subset:
            arguments.append(f"--read-data-subset={subset}")

        def take(line: str) -> bool:
            words.take(line)
            return on_line(line)

        return self._run(arguments, deadline, on_line=take, max_lines=MAX_LINES)

    def list_packs(self, deadline: float) -> list[str]:
        """Return the names of all packs in the storage, also of those that no index lists."""
        return self._list("packs", deadline)

    def average_pack_bytes(self, scratch: Path, deadline: float) -> int:
        """Return about how large a pack is, by one file of the index."""
        packs = next(self._read_indexes(scratch, deadline), [])
        return sum(pack.bytes for pack in packs) // len(packs) if packs else 0

    def packs_of_blobs(
        self, blobs: Collection[str], scratch: Path, deadline: float
    ) -> dict[str, str]:
        """Return the pack in which each blob lies, as far as the index says."""
        return {
            blob: pack.id
            for packs in self._read_indexes(scratch, deadline)
            for pack in packs
            for blob in pack.blobs.intersection(blobs)
        }

    def find_files(
        self, packs: Sequence[str], cache: Path, deadline: float, at_most: int
    ) -> list[str]:
        """Return files of which a part lies in these packs."""
        files: dict[str, None] = {}

        def take(line: str) -> bool:
            files[line.removeprefix(" ... ").partition(" ")[2].removeprefix("file ")] = None
            return len(files) >= at_most

        pattern = re.compile(rb"^ \.\.\. (?:in file|path) [^\n]+$", re.MULTILINE)
        command = ["find", "--cache-dir", str(cache), "--pack", *packs]
        self._run(command, deadline, on_line=take, lines=pattern)
        return sorted(files)

    def repair(self, arguments: Sequence[str], deadline: float, folder: Path) -> Ended:
        """Run a command that changes the repository; it locks, as restic wants it."""
        command = [self.tool.path, *self._flags(), *arguments]
        return run_tool(command, self._environment(), deadline=deadline, folder=folder)

    def explain(self, ended: Ended, words: CheckWords | None = None) -> Trouble:
        """Return why a call that says nothing about the data failed."""
        trouble = self._explain(ended, words)
        return replace(trouble, reason=self.hide_secrets(trouble.reason))

    def hide_secrets(self, text: str) -> str:
        return tool_process.hide_secrets(text, (self._secret,))

    def _explain(self, ended: Ended, words: CheckWords | None) -> Trouble:
        text = ended.words.text()  # as it is: a password may be one of the words that matter
        last = (words and words.fatal) or ended.words.last_line()
        if ended.code == 12 or "wrong password or no key found" in text:
            cure = "correct the password-file or password-env"
            return Trouble("the password opens no key of the repository", cure, is_mistake=True)
        if ended.code == 11 or "already locked" in text:
            return Trouble("the repository is locked")
        if ended.is_late and not (words and is_away(words.last_retry)):
            return Trouble("restic did not end in time", is_away=False)
        if is_away(text):
            return Trouble(
                f"the repository can't be reached: {(words and words.last_retry) or last}"
            )
        if ended.code == 10 or "Is there a repository at the following location" in text:
            cure = "correct the address, or run restic init"
            reason = f"there is no restic repository at {self.address}"
            return Trouble(reason, cure, is_mistake=True)
        return Trouble(f"restic failed with {ended.code}: {last}", is_away=False)

    def text(self, words: Excerpt) -> str:
        """Return words as a report may keep them."""
        return words.text((self._secret,))

    def _list(self, what: str, deadline: float) -> list[str]:
        names: list[str] = []

        outage = Outage(LIST_OUTAGE_SECONDS)

        def take(line: str) -> bool:
            if _PACK_NAME.fullmatch(line):
                names.append(line)
            return outage.lasts(line)

        ended = self._run(["--no-cache", "list", what], deadline, on_line=take, lines=_LISTED)
        if ended.code:
            raise self.explain(ended).error()
        return names

    def _read_indexes(self, scratch: Path, deadline: float) -> Iterator[list["_IndexedPack"]]:
        """Yield the packs that each file of the index lists; one that can't be read lists none."""
        path = scratch / "index.json"
        for name in self._list("index", deadline):
            with path.open("wb") as file:
                ended = self._run(["--no-cache", "cat", "index", name], deadline, output=file)
            is_whole = not ended.code and path.stat().st_size <= MAX_INDEX_BYTES
            yield _parse_index(path.read_bytes()) if is_whole else []
        path.unlink(missing_ok=True)

    def _run(
        self,
        arguments: Sequence[str],
        deadline: float,
        *,
        on_line: OnLine | None = None,
        lines: re.Pattern[bytes] = LINES,
        max_lines: float = math.inf,
        output: IO[bytes] | None = None,
    ) -> Ended:
        command = [self.tool.path, *self._flags(), *self._lock_flags(), *arguments]
        return run_tool(
            command,
            self._environment(),
            deadline=deadline,
            on_line=on_line,
            lines=lines,
            max_lines=max_lines,
            output=output,
        )

    def shown_flags(self) -> list[str]:
        """Return the flags by which an operator gives address and password file to restic."""
        where = self._options.get("repository-file")
        flags = ["--repository-file", where] if where else ["-r", self.address]
        file = self._options.get("password-file")
        return [*flags, *(["--password-file", file] if file else []), *self._flags()]

    def _flags(self) -> list[str]:
        options = ((name, self._options[name]) for name in self._own_options)
        return [part for name, value in options for part in ("-o", f"{name}={value}")]

    def _lock_flags(self) -> list[str]:
        if not self._lock:
            return ["--no-lock"]
        return ["--retry-lock", LOCK_WAIT] if self.tool.version >= WAITS_FOR_LOCKS else []

    def _environment(self) -> dict[str, str]:
        """Return the environment, by which restic learns address and password: no argument does."""
        where = self._options.get("repository-file")
        password_file = self._options.get("password-file")
        return tool_process.tool_environment(
            "RESTIC_",
            _KEPT,
            RESTIC_PROGRESS_FPS=str(PROGRESS_PER_SECOND),
            **({"RESTIC_REPOSITORY_FILE": where} if where else {"RESTIC_REPOSITORY": self.address}),
            **(
                {"RESTIC_PASSWORD_FILE": password_file}
                if password_file
                else {"RESTIC_PASSWORD": self._secret}
            ),
        )


@dataclass(frozen=True)
class _IndexedPack:
    id: str
    bytes: int  # about: its header comes on top
    blobs: frozenset[str]


def _parse_index(content: bytes) -> list[_IndexedPack]:
    try:
        return [
            _IndexedPack(
                pack["id"],
                sum(blob["length"] for blob in pack["blobs"]),
                frozenset(blob["id"] for blob in pack["blobs"]),
            )
            for pack in json.loads(content)["packs"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _local_folder(address: str) -> Path | None:
    """Return where the repository lies, if that is a folder of this machine."""
    if not address:
        raise InputError("a restic repository needs an address, as restic takes it by -r")
    path = Path(address.removeprefix("local:"))
    if path.is_absolute():
        return path
    if address.startswith("local:") or not _SCHEME.match(address):
        raise InputError(f"give the whole path of the repository {address}")
    return None


def is_away(text: str) -> bool:
    """Return whether a message says that the storage can't be reached, or lets nobody in."""
    return _AWAY.search(text) is not None


def _is_yes(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "no")
    if value not in {"yes", "no"}:
        raise InputError(f"the option {name} is yes or no, not {value!r}")
    return value == "yes"
