"""One check of a restic repository: the calls for a sample, and what they say together."""

import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.checkers.interface import (
    DamagedUnit,
    Defect,
    Finding,
    Group,
    Report,
    Sample,
)
from holdfast.checkers.process_checker import Progress, now
from holdfast.checkers.restic_repository import Outage, Repository, Trouble
from holdfast.checkers.restic_words import CheckWords, Complaint, Weight
from holdfast.checkers.tool_process import Ended, is_unreadable, monotonic_deadline
from holdfast.errors import HoldfastError
from holdfast.words import plural

GROUPS = 256  # first bytes of a pack's name: restic picks packs by them
MAX_ATTEMPTS = 2  # for a call that lost the index to a prune
RETRIES_WHAT_IS_GONE = (0, 17)  # below it: for most of a minute, for each pack
OUTAGE_SECONDS = 300.0
TREE_SECONDS = 120.0  # for such retries of trees, of which one missing pack may hold many

_PACK = re.compile("[0-9a-f]{64}")
_ERRORS_FOUND = ("repository contains errors", "LoadIndex returned errors")


@dataclass(frozen=True)
class Subset:
    """The packs whose first byte leaves this remainder: what restic reads in one call."""

    remainder: int
    modulus: int

    def __str__(self) -> str:
        return f"{self.remainder + 1}/{self.modulus}"

    def __contains__(self, pack: str) -> bool:
        """Return whether a pack, or a group, by the first byte of its name, is in it."""
        return int(pack[:2], 16) % self.modulus == self.remainder

    @property
    def first_bytes(self) -> range:
        return range(self.remainder, GROUPS, self.modulus)


def cover(wanted: Collection[int], free: Collection[int]) -> list[Subset]:
    """Return the fewest subsets that hold all wanted first bytes, and beside them only free ones.

    Each call checks the structure of the whole repository, so one call less counts.
    """
    allowed = {*wanted, *free}

    def split(subset: Subset) -> list[Subset]:
        if not any(byte in wanted for byte in subset.first_bytes):
            return []
        if all(byte in allowed for byte in subset.first_bytes):
            return [subset]
        half = subset.modulus * 2
        lower, upper = subset.remainder, subset.remainder + subset.modulus
        return split(Subset(lower, half)) + split(Subset(upper, half))

    return split(Subset(0, 1))


@dataclass
class _Stall:
    """Knows when a call only waits for packs that are gone, as older versions do for long."""

    subset: Subset
    _tree_since: float | None = None
    _packs_since: float | None = None

    def is_over(self, words: CheckWords, line: str) -> bool:
        now = time.monotonic()
        if words.packs_read is None:
            if line.startswith("Load") and _is_about_prefix(line, words.bad_packs()):
                self._tree_since = self._tree_since or now
            return self._tree_since is not None and now > self._tree_since + TREE_SECONDS
        if not line.startswith("["):
            return False
        waiting = {pack for pack in words.awaited_packs() if pack in self.subset}
        if not waiting or words.packs_read - words.done != len(waiting):
            self._packs_since = None
            return False
        self._packs_since = self._packs_since or now
        return now > self._packs_since + 0.25  # a pack's own line may come after progress


@dataclass
class Check:
    """Runs the calls for a sample; `groups` is what the last listing counted."""

    repository: Repository
    groups: dict[str, Group]
    sample: Sample
    scratch: Path
    on_progress: Progress

    _checked: int = 0
    _units: int = 0
    _read_bytes: int = 0
    _verified: set[str] = field(default_factory=set)
    _damaged: dict[str, DamagedUnit] = field(default_factory=dict)
    _trouble: Trouble | None = None
    _words: str = ""
    _outage: Outage = field(default_factory=lambda: Outage(OUTAGE_SECONDS))

    def run(self) -> Report:
        began = now()
        self._deadline = monotonic_deadline(self.sample.deadline)
        self._last_deadline = monotonic_deadline(self.sample.deadline, margin=0.05)
        tool = str(self.repository.tool)
        wanted = {int(group, 16) for group in self.sample.groups}
        empty = {byte for byte in range(GROUPS) if f"{byte:02x}" not in self.groups}
        for subset in cover(wanted, empty):
            self._check(subset)
            if self._trouble:
                break
        return self._report(began, tool)

    def _check(self, subset: Subset) -> None:
        for attempt in range(MAX_ATTEMPTS):
            words = CheckWords()
            ended = self._call(subset, words)
            self._words = self.repository.text(words.said if words.said.total else ended.words)
            if self._judge(subset, ended, words) or attempt + 1 == MAX_ATTEMPTS:
                return

    def _call(self, subset: Subset, words: CheckWords) -> Ended:
        stall = _Stall(subset) if self.repository.tool.version < RETRIES_WHAT_IS_GONE else None
        self._outage = outage = Outage(OUTAGE_SECONDS)
        total = sum(self.groups[name].units for name in self.sample.groups if name in self.groups)

        def watch(line: str) -> bool:
            self.on_progress(min(self._checked + words.done, total), total)
            return outage.lasts(line, words.done) or (
                stall is not None and stall.is_over(words, line)
            )

        return self.repository.check(
            str(subset), self.scratch / "cache", self._deadline, watch, words
        )

    def _judge(self, subset: Subset, ended: Ended, words: CheckWords) -> bool:
        """Take in what a call said; False if it read nothing because of a prune."""
        self._units = words.packs_in_index or self._units
        self._trouble = None
        doubts = words.about(Weight.DOUBT)
        confirmed = [] if self._outage.is_declared else self._confirm(doubts)
        self._add_damage([*self._name_packs(words.about(Weight.DAMAGE)), *confirmed])
        if self._outage.is_declared:
            self._trouble = Trouble(f"the repository can't be reached: {words.last_retry}")
        if self._trouble:
            return True
        has_ended = _is_clean(ended, words) or _has_complaints(ended, words)
        if not has_ended:
            if len(confirmed) < len(doubts) and words.packs_read is None and not ended.is_late:
                self._trouble = Trouble("the repository changes while it is read", is_away=False)
                return False
            if not confirmed:
                self._trouble = self.repository.explain(ended, words)
            return True
        pruned = {one.pack for one in doubts} - {one.pack for one in confirmed}
        if 0 < (words.packs_read or 0) <= sum(pack in subset for pack in pruned if pack):
            return False
        self._count(subset, words, pruned)
        return True

    def _count(self, subset: Subset, words: CheckWords, pruned: set[str]) -> None:
        """Count the packs that were read, and the groups of which all were."""
        read = words.packs_read or 0
        unread = self._explain_unread(words.about(Weight.UNREAD), subset, pruned)
        vanished = sum(pack in subset for pack in pruned if pack)
        self._checked += max(0, read - vanished - len(unread))
        groups = [group for group in self.sample.groups if group in subset]
        self._read_bytes += sum(self.groups[name].bytes for name in groups if name in self.groups)
        if unread:
            text = unread[0].detail
            trouble = self.repository.explain(Ended(1, words.said), words)
            reason = f"{plural(len(unread), 'pack')} could not be read: {text}"
            self._trouble = replace(trouble, reason=reason, cure="")
        bad = {one.pack[:2] for one in unread} | {unit.name[:2] for unit in self._damaged.values()}
        if read > vanished and "" not in bad:
            self._verified.update(name for name in groups if name not in bad)

    def _explain_unread(
        self, unread: list[Complaint], subset: Subset, pruned: set[str]
    ) -> list[Complaint]:
        """Return those that nothing explains: neither known damage nor a prune."""
        bad = {name for name in self._damaged if _PACK.fullmatch(name)}
        left = [one for one in unread if not _is_about(one, bad | pruned)]
        named = [one for one in left if one.pack]
        nameless = [one for one in left if not one.pack and "download error" in one.detail]
        others = [one for one in left if not one.pack and "download error" not in one.detail]
        explained = sum(pack in subset for pack in bad | pruned if pack)
        named = [one for one in named if not self._is_unreadable(one)]
        gone = self._gone({one.pack for one in named})
        return [
            *(one for one in named if one.pack not in gone),
            *nameless[explained:],
            *others,
        ]

    def _is_unreadable(self, complaint: Complaint) -> bool:
        """Return whether the disk itself can't read a pack, which is damage."""
        path, folder = self.repository.pack_path(complaint.pack), self.repository.folder
        if path is None or folder is None or "input/output error" not in complaint.detail:
            return False
        try:
            unreadable = is_unreadable(path, folder / "config")
        except HoldfastError:
            return False
        if unreadable:
            self._add_damage([replace(complaint, defect=Defect.UNREADABLE)])
        return unreadable

    def _gone(self, packs: set[str]) -> set[str]:
        """Return those packs that are no longer in the storage."""
        if not packs:
            return set()
        if self.repository.folder:
            paths = {pack: self.repository.pack_path(pack) for pack in packs}
            return {pack for pack, path in paths.items() if path and not path.exists()}
        try:
            return packs.difference(self.repository.list_packs(self._deadline))
        except HoldfastError:
            return set()

    def _confirm(self, doubts: list[Complaint]) -> list[Complaint]:
        """Return those that a fresh index and a fresh listing show again."""
        if all(one.name in self._damaged for one in doubts):
            return doubts  # an earlier call of this check did
        words = CheckWords()
        packs_only = all(one.pack for one in doubts)
        ended = self.repository.check(
            None,
            self.scratch / "cache",
            self._last_deadline,
            lambda _line: packs_only and words.at_structure,
            words,
        )
        again = {(one.name, one.defect) for one in words.about(Weight.DOUBT)}
        confirmed = [one for one in doubts if (one.name, one.defect) in again]
        if not (words.at_structure or again or _has_complaints(ended, words)):
            self._trouble = self.repository.explain(ended, words)
        return confirmed

    def _name_packs(self, complaints: list[Complaint]) -> list[Complaint]:
        """Return complaints about trees as complaints about the packs that hold them."""
        if all(_PACK.fullmatch(one.pack) for one in complaints):
            return complaints
        try:
            by_blob = self.repository.packs_of_blobs(
                {one.blob for one in complaints}, self.scratch, self._deadline
            )
            listed = self.repository.list_packs(self._deadline)
        except HoldfastError:
            return complaints
        return [_with_pack(one, by_blob, listed) for one in complaints]

    def _add_damage(self, complaints: Iterable[Complaint]) -> None:
        for one in complaints:
            is_pack = bool(_PACK.fullmatch(one.pack))
            name, group = (one.pack, one.pack[:2]) if is_pack else (one.name, self.sample.groups[0])
            detail = self.repository.hide_secrets(one.detail)
            self._damaged.setdefault(name, DamagedUnit(name, one.defect, group, detail))

    def _report(self, began: int, tool: str) -> Report:
        damaged = tuple(self._damaged[name] for name in sorted(self._damaged))
        verified = self._verified - {unit.group for unit in damaged}
        finding, reason = Finding.INTACT, ""
        if damaged:
            finding, reason = Finding.DAMAGED, _sentence(damaged)
        elif self._trouble:
            finding = Finding.UNREACHABLE if self._trouble.is_away else Finding.UNKNOWN
            reason = self._trouble.reason
        elif not self._checked:
            finding = Finding.UNKNOWN
            reason = "nothing was read: the index lists no pack of these groups"
        return Report(
            finding=finding,
            reason=self.repository.hide_secrets(reason),
            units=self._units or sum(group.units for group in self.groups.values()),
            checked=max(self._checked, len(damaged)),
            damaged=damaged,
            verified=tuple(name for name in self.sample.groups if name in verified),
            read_bytes=self._read_bytes,
            requests=self._checked,
            began=began,
            ended=now(),
            tool=tool,
            words=self._words,
        )


def _is_clean(ended: Ended, words: CheckWords) -> bool:
    return ended.code == 0 and words.is_clean and words.packs_read is not None


def _has_complaints(ended: Ended, words: CheckWords) -> bool:
    """Return whether a call read all that it could, and named what is wrong."""
    if words.packs_read is None:
        return False
    return ended.is_stopped or (ended.code == 1 and words.fatal in _ERRORS_FOUND)


def _is_about(complaint: Complaint, packs: Collection[str]) -> bool:
    if complaint.pack:
        return complaint.pack in packs
    return _is_about_prefix(complaint.detail, packs)


def _is_about_prefix(text: str, packs: Collection[str]) -> bool:
    prefix = re.search("<data/([0-9a-f]+)>", text)
    return prefix is not None and any(pack.startswith(prefix[1]) for pack in packs)


def _with_pack(one: Complaint, by_blob: dict[str, str], listed: list[str]) -> Complaint:
    pack = by_blob.get(one.blob, one.pack)
    whole = [name for name in listed if pack and name.startswith(pack)]
    return replace(one, pack=whole[0]) if len(whole) == 1 else replace(one, pack="")


def _sentence(damaged: tuple[DamagedUnit, ...]) -> str:
    packs = sum(bool(_PACK.fullmatch(unit.name)) for unit in damaged)
    others = len(damaged) - packs
    parts = [plural(packs, "pack")] if packs else []
    parts += [plural(others, "other part") + " of the repository"] if others else []
    return f"{' and '.join(parts)} {'is' if len(damaged) == 1 else 'are'} damaged"
