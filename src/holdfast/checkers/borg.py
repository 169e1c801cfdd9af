"""Checks by `borg check --repository-only`: the kind `borg`.

A unit is a segment. borg itself chooses which: a partial check goes on where the last one stopped,
in order, and tests the CRC32 of all entries. Only a check of the whole repository compares it with
the index, which finds segments that are missing or were replaced. No passphrase is needed.
"""

import math
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast import atomic
from holdfast.checkers.borg_repository import Repository
from holdfast.checkers.borg_words import BorgWords
from holdfast.checkers.interface import (
    Damage,
    DamagedUnit,
    Defect,
    Extent,
    Finding,
    Place,
    Report,
    Sample,
)
from holdfast.checkers.memory import Memory
from holdfast.checkers.process_checker import ProcessChecker, Progress, now
from holdfast.checkers.tool_failure import Failure
from holdfast.checkers.tool_process import Ended, is_unreadable, monotonic_deadline
from holdfast.errors import HoldfastError, InputError, UnreachableError
from holdfast.words import plural

SLICE_SECONDS = 120  # of one call: then a backup that waits has its turn
PAUSE_SECONDS = 1.0
FIRST_SECONDS = 1  # until the speed is known; borg takes whole seconds
ALL_SEGMENTS = "data"  # the unit that is named if no segment is left


@dataclass(frozen=True)
class _Known:
    """What is known of the repository since the last check."""

    segments: int = 0
    bytes: int = 0
    checked: int = 0  # by the last partial check that was long enough, and how long it took
    milliseconds: int = 0


class BorgChecker(ProcessChecker):
    kind = "borg"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._repository = Repository(place)
        self._memory = Memory(place.folder / "borg.json", _Known())

    def extent(self) -> Extent:
        tool, known = str(self._repository.tool), self._memory.read()
        atomic.make_directory(self.place.folder, mode=atomic.PRIVATE_FOLDER)
        try:
            known = self._count(known)
        except InputError as error:
            if known.segments:  # it worked before
                raise UnreachableError(str(error)) from error
            raise
        self._memory.write(known)
        return Extent("segment", known.segments, known.bytes, tool)

    def run(self, sample: Sample, on_progress: Progress) -> Report:
        check = _Check(self._repository, self._memory.read(), sample, on_progress)
        report = check.run()
        self._memory.write(check.known)
        return report

    def locate(self, report: Report) -> Damage:
        """Suggest borg's repair. It gives up what is damaged, so it is never run from here."""
        return Damage(
            units=report.damaged,
            commands=(("borg", "check", "--repair", self.place.address),),
            loses_data=True,
            advice=(
                "Copy the repository first. The repair removes what is damaged and puts zeros "
                "into the files of which it was a part. Make new backups from the sources, and "
                "run the repair again: borg then puts back what the new backups hold."
            ),
        )

    def _count(self, known: _Known) -> _Known:
        if self._repository.folder is None:
            return self._count_remote(known)
        sizes = _scan(self._repository.folder)
        if not sizes and not known.segments:
            raise InputError("the repository has no segments: make a backup first")
        if not sizes:
            return known  # all are gone: a check says so
        return replace(known, segments=len(sizes), bytes=sum(sizes.values()))

    def _count_remote(self, known: _Known) -> _Known:
        """Ask borg on the other side; it counts segments only when it checks some."""
        if known.segments:
            self._repository.touch(self.scratch)
            return known
        words = BorgWords()
        deadline = time.monotonic() + SLICE_SECONDS
        ended = self._repository.check(FIRST_SECONDS, deadline, words)
        if words.segments is None:
            raise self._repository.explain(ended, words).error()
        return replace(known, segments=words.segments)


@dataclass
class _Check:
    """Runs the calls for a sample."""

    repository: Repository
    known: _Known
    sample: Sample
    on_progress: Progress

    _checked: set[int] = field(default_factory=set)
    _damaged: dict[str, DamagedUnit] = field(default_factory=dict)
    _failure: Failure | None = None
    _words: str = ""
    _sizes: dict[int, int] = field(default_factory=dict)

    def run(self) -> Report:
        began = now()
        self._deadline = monotonic_deadline(self.sample.deadline)
        try:
            self._sizes = _scan(self.repository.folder) if self.repository.folder else {}
            self._check()
        except (UnreachableError, InputError) as error:  # it was there when the sample was drawn
            self._failure = Failure(str(error))
        except HoldfastError as error:
            self._failure = Failure(str(error), is_away=False)
        return self._report(began)

    def _check(self) -> None:
        named = [re.fullmatch(r"segment (\d+)", group) for group in self.sample.groups]
        segments = [int(match[1]) for match in named if match]
        if self.sample.groups and self.repository.folder and len(segments) == len(named):
            self._look_again(segments)
        elif self.sample.groups or self.sample.units >= self.known.segments:
            self._call(None)
        else:
            self._check_some()

    def _check_some(self) -> None:
        """Check as many segments as are asked for, in slices."""
        while not self._failure and len(self._checked) < self.sample.units:
            before = len(self._checked)
            if before:
                time.sleep(PAUSE_SECONDS)
            duration = self._duration(self.sample.units - before)
            began = time.monotonic()
            words = self._call(duration)
            gained = len(self._checked) - before
            if not gained:
                return  # all there are
            if not words.is_at_end:
                elapsed = round(1000 * (time.monotonic() - began))
                self.known = replace(self.known, checked=gained, milliseconds=elapsed)

    def _duration(self, segments: int) -> int:
        """Return for how many seconds borg takes for that many segments, by its last speed."""
        if not self.known.checked:
            return FIRST_SECONDS
        seconds = segments * self.known.milliseconds / self.known.checked / 1000
        return max(FIRST_SECONDS, min(SLICE_SECONDS, math.ceil(seconds)))

    def _look_again(self, segments: Iterable[int]) -> None:
        """Check certain segments, and leave the place where borg goes on as it was."""
        before = self.repository.position(self._deadline)
        try:
            for segment in sorted(segments):
                previous = str(segment - 1) if segment else None
                self.repository.set_position(previous, self._deadline)
                self._call(FIRST_SECONDS)
        finally:
            self.repository.set_position(before, self._deadline)

    def _call(self, duration: int | None) -> BorgWords:
        words = BorgWords()
        ended = self.repository.check(duration, self._deadline, words, self._show_progress)
        self._words = (words.said if words.said.total else ended.words).text()
        self._checked |= words.checked
        if words.segments is not None:
            self.known = replace(self.known, segments=words.segments or self.known.segments)
        self._damaged.update({unit.name: unit for unit in words.damaged()})
        if words.segments == 0:
            detail = "borg finds no segments where there were some"
            unit = DamagedUnit(ALL_SEGMENTS, Defect.MISSING, ALL_SEGMENTS, detail)
            self._damaged[unit.name] = unit
        elif unit_unreadable := self._unreadable(ended, words):
            self._damaged[unit_unreadable.name] = unit_unreadable
        elif ended.code not in {0, 1} or words.verdict is None:
            self._failure = self.repository.explain(ended, words)
        elif words.verdict is False and not self._damaged:
            self._failure = Failure("borg found errors that name no segment", is_away=False)
        return words

    def _show_progress(self, words: BorgWords) -> None:
        done = len(self._checked | words.checked)
        self.on_progress(min(done, self.sample.units), self.sample.units)

    def _unreadable(self, ended: Ended, words: BorgWords) -> DamagedUnit | None:
        """Return the segment at which borg broke off because the disk can't read it."""
        folder, segment = self.repository.folder, words.current
        if folder is None or segment is None or "Input/output error" not in ended.words.text():
            return None
        path = next(folder.glob(f"data/*/{segment}"), None)
        if path is None or not is_unreadable(path, folder / "config"):
            return None
        name = f"segment {segment}"
        return DamagedUnit(name, Defect.UNREADABLE, name, "the disk reports an input/output error")

    def _report(self, began: int) -> Report:
        damaged = tuple(self._damaged[name] for name in sorted(self._damaged))
        finding, reason = Finding.INTACT, ""
        if damaged:
            finding = Finding.DAMAGED
            reason = f"{plural(len(damaged), 'segment is', 'segments are')} damaged"
        elif self._failure:
            finding = Finding.UNREACHABLE if self._failure.is_away else Finding.UNKNOWN
            reason = self._failure.reason
        elif not self._checked:
            finding, reason = Finding.UNKNOWN, "nothing was read: borg checked no segment"
        bad = {unit.group for unit in damaged}
        names = {f"segment {segment}" for segment in self._checked}
        return Report(
            finding=finding,
            reason=reason,
            units=self.known.segments,
            checked=max(len(self._checked), len(damaged)),
            damaged=damaged,
            verified=tuple(name for name in self.sample.groups if name in names - bad),
            read_bytes=self._read_bytes(),
            requests=0,
            began=began,
            ended=now(),
            tool=str(self.repository.tool),
            words=self._words,
        )

    def _read_bytes(self) -> int:
        if self._sizes:
            return sum(self._sizes.get(segment, 0) for segment in self._checked)
        return self.known.bytes * len(self._checked) // max(self.known.segments, 1)


def _scan(folder: Path) -> dict[int, int]:
    """Return the sizes of all segments of a repository on this machine."""
    if not (folder / "config").exists():
        raise InputError(f"there is no borg repository in {folder}: correct it, or run borg init")
    sizes = {}
    try:
        for file in (folder / "data").glob("*/[0-9]*"):
            with suppress(FileNotFoundError):  # compacted away
                if file.name.isdecimal():
                    sizes[int(file.name)] = file.stat().st_size
    except OSError as error:
        raise UnreachableError(f"can't list {folder}: {error.strerror}") from error
    return sizes
