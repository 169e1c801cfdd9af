"""Checks by `rclone check --download`: the kind `rclone`.

A unit is a file, which rclone reads at both places, and compares. It can't say which of two files
that differ is the damaged one, and neither can this module: it says so. Where a remote stores
checksums, rclone can compare those without reading anything; that is no read, and is not offered.
A file that is newer at the place it is compared with has not been copied yet, which is no damage,
unless the option `frozen=yes` says that files never change.
"""

import re
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import atomic
from holdfast.checkers.interface import (
    DamagedUnit,
    Defect,
    Extent,
    Finding,
    Group,
    Place,
    Report,
    Sample,
)
from holdfast.checkers.process_checker import ProcessChecker, Progress, now
from holdfast.checkers.rclone_remotes import Entry, Remotes, is_away, read_record
from holdfast.checkers.tool_failure import Failure
from holdfast.checkers.tool_process import Ended, is_unreadable, monotonic_deadline
from holdfast.errors import HoldfastError, InputError, UnreachableError
from holdfast.words import plural

EXTENT_SECONDS = 6 * 3600.0
MAX_FAILED_IN_A_ROW = 10  # files that can't be read; rclone tries each for a quarter of a minute
CLOCK_SECONDS = 2.0  # by which times of the same file may differ

# Not in the line of a file, which begins with a sign.
_COMPLETE = re.compile(r"^(?![=*!+-] )[^\n]*Failed to check[^\n]*differences found", re.MULTILINE)


class RcloneChecker(ProcessChecker):
    kind = "rclone"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._remotes = Remotes(place)
        self._memory = place.folder / "names.txt"

    def extent(self) -> Extent:
        """Return the files that both remotes have; those that went from one of them vanished."""
        remotes, deadline = self._remotes, time.monotonic() + EXTENT_SECONDS
        tool, known = str(remotes.tool), self._known()
        try:
            here = remotes.list_files(remotes.address, deadline)
            there = remotes.list_files(remotes.against, deadline)
        except InputError as error:
            if known:  # it worked before
                raise UnreachableError(str(error)) from error
            raise
        if not here and known and remotes.folder:
            raise UnreachableError(f"{remotes.folder} is empty: is it mounted?")
        common = sorted(here.keys() & there.keys())
        if not common and not known:
            raise InputError(f"{remotes.address} and {remotes.against} have no file in common")
        vanished = tuple(sorted((known - here.keys()) & there.keys()))
        self._remember({*common, *vanished})
        groups = tuple(Group(name, 1, here[name].size) for name in common)
        size = sum(group.bytes for group in groups)
        return Extent("file", len(groups), size, tool, groups, vanished)

    def run(self, sample: Sample, on_progress: Progress) -> Report:
        units = max(len(self._known()), len(sample.groups))
        return _Check(self._remotes, units, sample, self.scratch, on_progress).run()

    def _known(self) -> set[str]:
        try:
            return {*self._memory.read_text().split("\n")} - {""}
        except FileNotFoundError:
            return set()

    def _remember(self, names: Collection[str]) -> None:
        atomic.make_directory(self.place.folder, mode=atomic.PRIVATE_FOLDER)
        content = "".join(f"{name}\n" for name in sorted(names))
        atomic.write(self._memory, content.encode(), mode=atomic.PRIVATE)


@dataclass
class _Check:
    """Compares the files of a sample."""

    remotes: Remotes
    units: int
    sample: Sample
    scratch: Path
    on_progress: Progress

    _signs: dict[str, str] = field(default_factory=dict)  # a name and what rclone says of it
    _errors: dict[str, str] = field(default_factory=dict)
    _read_bytes: int = 0
    _damaged: list[DamagedUnit] = field(default_factory=list)
    _skipped: list[str] = field(default_factory=list)  # why there is nothing to compare
    _unread: list[str] = field(default_factory=list)  # why a file could not be read
    _failed_in_a_row: int = 0
    _failure: Failure | None = None
    _words: str = ""

    def run(self) -> Report:
        began = now()
        self._names = {*self.sample.groups}
        self._deadline = monotonic_deadline(self.sample.deadline)
        ended = self.remotes.check(self.sample.groups, self.scratch, self._deadline, self._take)
        self._words = self.remotes.text(ended)
        try:
            self._judge(began)
        except (UnreachableError, InputError) as error:  # it was there when the sample was drawn
            self._failure = Failure(str(error))
        except HoldfastError as error:
            self._failure = Failure(str(error), is_away=False)
        if self._signs.keys() != self._names and not _is_complete(ended):
            self._failure = self._failure or self.remotes.explain(ended)
        return self._report(began)

    def _take(self, line: str) -> bool:
        if record := read_record(line):
            if isinstance(stats := record.get("stats"), dict):
                self._read_bytes = int(stats.get("bytes", 0))
            elif record.get("level") == "error":
                self._errors[str(record.get("object"))] = str(record.get("msg"))
        elif line[2:] in self._names:
            self._signs[line[2:]] = line[0]
            self._failed_in_a_row = self._failed_in_a_row + 1 if line[0] == "!" else 0
            self.on_progress(len(self._signs), len(self._names))
        return self._failed_in_a_row >= MAX_FAILED_IN_A_ROW

    def _judge(self, began: int) -> None:
        """Ask both remotes again about all files that are not the same."""
        if self._failed_in_a_row >= MAX_FAILED_IN_A_ROW:
            reason = next(reversed(self._errors.values()), "nothing can be read")
            raise UnreachableError(f"the remote can't be reached: {reason}")
        names = [name for name, sign in self._signs.items() if sign in "*+-!"]
        if not names:
            return
        remotes, path = self.remotes, self.scratch / "again.txt"
        self._require_root()
        self._compare_again([name for name in names if self._signs[name] == "*"])
        here = remotes.list_files(remotes.address, self._deadline, names, path)
        there = remotes.list_files(remotes.against, self._deadline, names, path)
        for name in names:
            self._judge_file(name, here.get(name), there.get(name), began)

    def _compare_again(self, names: list[str]) -> None:
        """Compare files that differ once more: they may have been copied in between."""
        signs: dict[str, str] = {}

        def take(line: str) -> bool:
            signs[line[2:]] = line[0]
            return False

        if names:
            self.remotes.check(names, self.scratch, self._deadline, take)
        for name in names:
            if signs.get(name) != "*":
                self._signs[name] = "?"

    def _require_root(self) -> None:
        """Raise UnreachableError if a folder that nothing is mounted on looks empty."""
        folder = self.remotes.folder
        if folder and not (folder.is_dir() and any(folder.iterdir())):
            raise UnreachableError(f"{folder} is gone or empty: is it mounted?")

    def _judge_file(self, name: str, here: Entry | None, there: Entry | None, began: int) -> None:
        remotes = self.remotes
        if there is None:
            self._skipped.append(f"{name} is no longer in {remotes.against}")
        elif self._signs[name] == "!":
            self._judge_error(name)
        elif here is None:
            self._damaged.append(
                DamagedUnit(name, Defect.MISSING, name, f"{remotes.against} still has it")
            )
        elif max(here.modified, there.modified) * 1000 >= began:
            self._skipped.append(f"{name} was changed during the check")
        elif there.modified > here.modified + CLOCK_SECONDS and remotes.is_frozen == "no":
            self._skipped.append(f"{name} is newer in {remotes.against}")
        elif self._signs[name] == "*":
            defect = Defect.TRUNCATED if here.size < there.size else Defect.CHANGED
            detail = f"it differs from {remotes.against}; rclone can't say which one is damaged"
            self._damaged.append(DamagedUnit(name, defect, name, detail))
        else:
            self._skipped.append(f"{name} was copied during the check")

    def _judge_error(self, name: str) -> None:
        """Tell a file that the disk can't read from one that could not be reached."""
        error = self._errors.get(name, "rclone could not read it")
        folder = self.remotes.folder
        control = next((one for one, sign in self._signs.items() if sign == "="), None)
        is_refused = "input/output error" in error
        if folder and control and is_refused and is_unreadable(folder / name, folder / control):
            self._damaged.append(DamagedUnit(name, Defect.UNREADABLE, name, error))
            return
        self._unread.append(f"{name}: {error}")

    def _report(self, began: int) -> Report:
        same = {name for name, sign in self._signs.items() if sign == "="}
        damaged = tuple(sorted(self._damaged, key=lambda unit: unit.name))
        finding, reason = Finding.INTACT, ""
        if damaged:
            finding = Finding.DAMAGED
            reason = f"{plural(len(damaged), 'file is', 'files are')} missing or not as elsewhere"
        elif self._failure:
            finding = Finding.UNREACHABLE if self._failure.is_away else Finding.UNKNOWN
            reason = self._failure.reason
        elif self._unread:
            finding = Finding.UNREACHABLE if is_away(self._unread[0]) else Finding.UNKNOWN
            reason = f"{plural(len(self._unread), 'file')} could not be read: {self._unread[0]}"
        elif not same:
            finding = Finding.UNKNOWN
            reason = (
                f"nothing was compared: {'; '.join(self._skipped[:1]) or 'rclone named no file'}"
            )
        return Report(
            finding=finding,
            reason=self.remotes.hide_secrets(reason),
            units=self.units,
            checked=len(same) + len(damaged),
            damaged=damaged,
            verified=tuple(name for name in self.sample.groups if name in same),
            read_bytes=self._read_bytes,
            requests=2 * len(self._signs),
            began=began,
            ended=now(),
            tool=str(self.remotes.tool),
            words=self._words,
        )


def _is_complete(ended: Ended) -> bool:
    """Return whether rclone came to its end: then a file that it does not name is at no place.

    Its two streams may come in any order, so what it says at last need not be the last line.
    """
    return ended.code == 0 or (ended.code == 1 and _COMPLETE.search(ended.words.text()) is not None)
