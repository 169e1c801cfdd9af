"""Checks by restic's own `check`: the kind `restic`.

A unit is a pack, and what can be drawn is all packs whose names begin with one byte: those are the
subsets that restic can read. Every call also checks the structure of the whole repository, which
finds missing and truncated packs wherever they are; what it reads of index and trees comes on top
of the bytes that are counted. A snapshot that somebody removed does not show.
"""

import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast import atomic
from holdfast.checkers.interface import (
    Damage,
    Extent,
    Group,
    Place,
    Repair,
    Report,
    Sample,
)
from holdfast.checkers.memory import Memory
from holdfast.checkers.process_checker import ProcessChecker, Progress
from holdfast.checkers.restic_check import Check
from holdfast.checkers.restic_repair import advise, packs, plan_repair
from holdfast.checkers.restic_repository import Repository
from holdfast.errors import (
    HoldfastError,
    InputError,
    StorageError,
    UnreachableError,
)

EXTENT_SECONDS = 1800.0
LOCATE_SECONDS = 300.0
REPAIR_SECONDS = 24 * 3600.0
MAX_FILES = 1000

_PACK = re.compile("[0-9a-f]{64}")
RENEWED_AVERAGE = 0.2  # by this share the number of packs changes before it is read anew


@dataclass(frozen=True)
class _Known:
    """What the last listing said."""

    groups: tuple[Group, ...] = ()
    pack_bytes: int = 0  # on average, where the storage does not tell sizes
    packs: int = 0  # when that was


class ResticChecker(ProcessChecker):
    kind = "restic"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._repository = Repository(place)
        self._memory = Memory(place.folder / "restic.json", _Known())

    def extent(self) -> Extent:
        tool, known = str(self._repository.tool), self._memory.read()
        atomic.make_directory(self.place.folder, mode=atomic.PRIVATE_FOLDER)
        try:
            listed = self._list(known)
        except InputError as error:
            if known.groups:  # it worked before
                raise UnreachableError(str(error)) from error
            raise
        except StorageError:
            if not known.groups:
                raise
            listed = known  # a check will say what is wrong
        if not listed.groups:
            if not known.groups:
                raise InputError("the repository holds no packs: make a backup first")
            listed = known  # all packs are gone: a check finds out whether they should be there
        self._memory.write(listed)
        groups = listed.groups
        units, size = sum(one.units for one in groups), sum(one.bytes for one in groups)
        return Extent("pack", units, size, tool, groups)

    def run(self, sample: Sample, on_progress: Progress) -> Report:
        if not all(re.fullmatch("[0-9a-f]{2}", group) for group in sample.groups):
            raise InputError("the sample names no groups of a restic repository")
        groups = {group.name: group for group in self._memory.read().groups}
        return Check(self._repository, groups, sample, self.scratch, on_progress).run()

    def locate(self, report: Report) -> Damage:
        files = self._find_files(packs(report.damaged))
        steps = plan_repair(self._repository, report.damaged, self._kept)
        return Damage(
            units=report.damaged,
            files=tuple(files),
            commands=tuple(step.shown for step in steps),
            loses_data=any(step.loses_data for step in steps),
            advice=advise(self._repository, report.damaged),
        )

    def repair(self, damage: Damage) -> Repair:
        """Take damaged packs out of the index; the next backup from the source stores them anew."""
        deadline = time.monotonic() + REPAIR_SECONDS
        atomic.make_directory(self._kept, mode=atomic.PRIVATE_FOLDER)
        names = [unit.name for unit in damage.units]
        repaired: set[str] = set()
        words, detail = "", advise(self._repository, damage.units)
        for step in plan_repair(self._repository, damage.units, self._kept):
            try:
                words = step.run(deadline)
            except HoldfastError as error:
                detail = f"{' '.join(step.shown)} failed: {error}"
                break
            repaired |= step.units
        return Repair(
            tuple(name for name in names if name in repaired),
            tuple(name for name in names if name not in repaired),
            detail,
            words,
        )

    def _find_files(self, names: list[str]) -> list[str]:
        deadline = time.monotonic() + LOCATE_SECONDS
        with suppress(HoldfastError), tempfile.TemporaryDirectory(dir=self.scratch) as cache:
            if names:
                return self._repository.find_files(names, Path(cache), deadline, MAX_FILES)
        return []

    @property
    def _kept(self) -> Path:
        """Return where damaged packs are kept."""
        return self.place.folder / "damaged-packs"

    def _list(self, known: _Known) -> _Known:
        """Return the groups as they are now; the first time, restic opens the repository for it."""
        repository, deadline = self._repository, time.monotonic() + EXTENT_SECONDS
        if repository.folder is None:
            listed = repository.list_packs(deadline)
            known = self._with_average(known, len(listed), deadline)
            counts = Counter(pack[:2] for pack in listed)
            groups = (
                Group(name, count, count * known.pack_bytes) for name, count in counts.items()
            )
            return replace(known, groups=_sorted(groups))
        if not known.groups:
            repository.list_packs(deadline)
        elif not (repository.folder / "config").exists():
            raise UnreachableError(f"there is no repository in {repository.folder}: is it mounted?")
        try:
            return _Known(_sorted(_scan(repository.folder / "data")))
        except OSError as error:
            raise UnreachableError(f"can't list {repository.folder}: {error.strerror}") from error

    def _with_average(self, known: _Known, packs: int, deadline: float) -> _Known:
        if known.pack_bytes and abs(packs - known.packs) <= RENEWED_AVERAGE * known.packs:
            return known
        average = self._repository.average_pack_bytes(self.scratch, deadline)
        return replace(known, pack_bytes=average, packs=packs)


def _scan(folder: Path) -> Iterator[Group]:
    """Yield the groups that a repository of this machine has, with the sizes of their files."""
    for path in sorted(folder.glob("[0-9a-f][0-9a-f]")):
        sizes = [size for size in map(_size, path.iterdir()) if size is not None]
        if sizes:
            yield Group(path.name, len(sizes), sum(sizes))


def _size(file: Path) -> int | None:
    """Return the size of a pack; a file under another name, or one just pruned, is none."""
    with suppress(FileNotFoundError):
        return file.stat().st_size if _PACK.fullmatch(file.name) else None
    return None


def _sorted(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda group: group.name))
