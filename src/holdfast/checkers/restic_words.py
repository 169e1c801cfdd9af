"""Reads what `restic check` prints: which packs it read, and what it complains about.

restic 0.14 to 0.19 print the same sentences with small differences, as text or, with `--json`, as
messages that hold them. Text is what is asked for: JSON does not say how many packs were read, so
it can't tell a check that read nothing from one that found nothing. A sentence that is not known
here never becomes damage.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast import jsontext
from holdfast.checkers.interface import Defect
from holdfast.checkers.tool_process import Excerpt

_ID = "[0-9a-f]{64}"
_REST = "[^\n]+"

# The lines that are read at all, so that others cost nothing, however many they are.
LINES = re.compile(
    rb"^(?:\x1b\[2K|\r)*(?:[Pp]ack |read |error|  |download |check |no errors |\[|Fatal|snapshot "
    rb'|(?:Load|List|Stat)\(|\{"message_type"|.*already locked)[^\n]*$',
    re.MULTILINE,
)

ATTEMPT = re.compile(r"(?:Load|List|Stat)\(")  # that failed; others may follow


class Weight(StrEnum):
    """How much a complaint says by itself."""

    DAMAGE = "damage"  # bytes were read, and they are wrong
    DOUBT = "doubt"  # it may be a prune that runs at the same time: confirm it by a fresh index
    UNREAD = "unread"  # something could not be read, or the sentence is not known


@dataclass(frozen=True)
class Complaint:
    """What restic says about one thing; `pack` is empty if it does not name one."""

    weight: Weight
    name: str  # of a damaged unit
    detail: str
    defect: Defect = Defect.UNREADABLE
    pack: str = ""
    blob: str = ""  # of which the pack is looked up in the index


@dataclass
class CheckWords:
    """What one call of `restic check` printed, as far as it is understood."""

    packs_read: int | None = None  # of those that its index lists
    packs_in_index: int = 0
    done: int = 0  # packs, as the last progress says
    at_structure: bool = False  # all packs are compared with the index by now
    is_clean: bool = False  # its own word
    complaints: dict[tuple[str, str], Complaint] = field(default_factory=dict)
    fatal: str = ""
    last_retry: str = ""
    retried: set[str] = field(default_factory=set)  # beginnings of the names of packs
    said: Excerpt = field(default_factory=Excerpt)  # without progress and attempts
    _tree: str = ""

    def take(self, line: str) -> None:
        """Read one line."""
        line = line.lstrip("\r").replace("\x1b[2K", "")
        if line.startswith('{"message_type"'):
            for part in _json_message(line).splitlines():
                self._take_text(part)
        else:
            self._take_text(line)

    def about(self, weight: Weight) -> list[Complaint]:
        return [one for one in self.complaints.values() if one.weight is weight]

    def bad_packs(self) -> set[str]:
        """Return the packs that are missing or have the wrong size, as far as one listing says."""
        return {one.pack for one in self.about(Weight.DOUBT) if one.pack}

    def awaited_packs(self) -> set[str]:
        """Return those of them that restic tries to read again and again."""
        given_up = {one.pack for one in self.about(Weight.UNREAD)}
        return {
            pack
            for pack in self.bad_packs() - given_up
            if any(pack.startswith(prefix) for prefix in self.retried)
        }

    def _take_text(self, line: str) -> None:
        is_attempt = ATTEMPT.match(line) is not None
        if not is_attempt and not line.startswith("["):
            self.said.add(f"{line}\n".encode())
        if match := re.fullmatch(r"error for tree ([0-9a-f]+):", line):
            self._tree = match[1]  # its errors follow, amidst lines about other things
        elif line.startswith("  "):
            self._add(_about_tree(self._tree, line.strip()))
        elif is_attempt:
            self.last_retry = line  # about one attempt of several
            if match := re.match("Load.<data/([0-9a-f]+)>.*retrying after", line):
                self.retried.add(match[1])
        elif self._take_progress(line):
            pass
        elif complaint := _about(line):
            self._add(complaint)
        elif line.startswith("Fatal: ") or "already locked" in line:
            self.fatal = self.fatal or line.removeprefix("Fatal: ")

    def _take_progress(self, line: str) -> bool:
        if match := re.match(r"read group #\d+ of (\d+) .*\(out of total (\d+) packs in", line):
            self.packs_read, self.packs_in_index = int(match[1]), int(match[2])
        elif match := re.fullmatch(r"\[[\d:]+\] +[\d.]+% +(\d+) / \d+ packs", line):
            self.done = int(match[1])
        elif line == "check snapshots, trees and blobs":
            self.at_structure = True
        elif line == "no errors were found":
            self.is_clean = True
        else:
            return False
        return True

    def _add(self, complaint: Complaint) -> None:
        self.complaints.setdefault((complaint.weight, complaint.name), complaint)


def _json_message(line: str) -> str:
    try:
        message = jsontext.loads(line)
    except (ValueError, RecursionError):
        return ""
    text = message.get("message", "")  # the summary repeats what the messages say, not all of it
    return text if isinstance(text, str) else ""


def _about(line: str) -> Complaint | None:
    """Return what a line says about a pack, the index, a snapshot or a key."""
    for pattern, read in _SENTENCES:
        if match := pattern.match(line):
            return read(match)
    return None


def _missing(match: re.Match[str]) -> Complaint:
    pack = match[1]
    return Complaint(Weight.DOUBT, pack, "the index lists it", Defect.MISSING, pack)


def _wrong_size(match: re.Match[str]) -> Complaint:
    pack, got, expected = match[1], int(match[2]), int(match[3])
    defect = Defect.TRUNCATED if got < expected else Defect.CHANGED
    return Complaint(Weight.DOUBT, pack, f"{got} bytes instead of {expected}", defect, pack)


def _wrong_hash(match: re.Match[str]) -> Complaint:
    detail = "its SHA-256 is not its name"
    return Complaint(Weight.DAMAGE, match[1], detail, Defect.CHANGED, match[1])


def _wrong_content(match: re.Match[str]) -> Complaint:
    """Read the errors in a pack; the last may be that its download broke off."""
    pack, errors = match[1], match[2]
    if errors.startswith("[partial download error"):
        return Complaint(Weight.UNREAD, pack, errors, pack=pack)
    return Complaint(Weight.DAMAGE, pack, errors[:200], Defect.CHANGED, pack)


def _not_read(match: re.Match[str]) -> Complaint:
    line = match[0]
    ids = re.findall(_ID, line)
    return Complaint(Weight.UNREAD, ids[0] if ids else line, line, pack=ids[0] if ids else "")


def _second_attempt(match: re.Match[str]) -> Complaint:
    """Read a pack that was right only when it was read again: its reader or its line is flaky."""
    ids = re.findall(_ID, match[0])
    detail = "it was right at the second attempt"
    return Complaint(Weight.UNREAD, match[0], detail, pack=ids[0] if ids else "")


def _broken_file(match: re.Match[str]) -> Complaint:
    """Read of a file beside the packs, whose name is its hash as well."""
    kind, name = match["kind"], match["name"]
    return Complaint(Weight.DOUBT, f"{kind} {name[:10]}", "its content is wrong", Defect.CHANGED)


def _broken_config(match: re.Match[str]) -> Complaint:
    return Complaint(Weight.DOUBT, "config", match[0].removeprefix("Fatal: "), Defect.CHANGED)


def _about_tree(tree: str, text: str) -> Complaint:
    """Return what is wrong with a tree: its bytes, or that something in it is gone."""
    if match := re.search(rf"blob ({_ID}) not found in index", text):
        return Complaint(Weight.DOUBT, f"blob {match[1]}", text, Defect.MISSING)
    if match := re.match(rf"id ({_ID}) not found in repository", text):
        return Complaint(Weight.DOUBT, f"tree {match[1]}", text, Defect.MISSING)
    if "ciphertext verification failed" in text or "does not match" in text:
        pack = re.search(rf"from (?:pack )?({_ID}|[0-9a-f]{{8}}) ", text)
        blob = re.search(rf"blob ({_ID}) ", text)
        return Complaint(
            Weight.DAMAGE,
            f"tree {tree}",
            text,
            Defect.CHANGED,
            pack[1] if pack else "",
            blob[1] if blob else "",
        )
    return Complaint(Weight.UNREAD, f"tree {tree}: {text}", text)


_WRONG = "(?:invalid data returned|ciphertext verification failed)"
_SENTENCES = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        (rf"pack ({_ID}): does not exist", _missing),
        (rf"pack ({_ID}): unexpected file size: got (\d+), expected (\d+)", _wrong_size),
        (rf"Pack ID does not match, want ({_ID}), got", _wrong_hash),
        (rf"pack ({_ID}) contains \d+ errors: (.*)", _wrong_content),
        (rf"check successful on second attempt, original error {_REST}", _second_attempt),
        (
            rf"error: error loading (?P<kind>index) (?P<name>{_ID}): .*{_WRONG}",
            _broken_file,
        ),
        (
            rf"(?:error|Fatal): .*<(?P<kind>snapshot|key)/(?P<name>[0-9a-f]+)>\)?: {_WRONG}",
            _broken_file,
        ),
        (rf"Fatal: config or key {_ID} is damaged.*", _broken_config),
        (rf"pack {_ID}: not referenced in any index", lambda _: None),
        (rf"pack {_ID} contained in several indexes", lambda _: None),
        (r"pack [0-9a-f]+ contains a mix of tree and data blobs", lambda _: None),
        (rf"(?:pack|download error|error|snapshot error)\b{_REST}", _not_read),
    )
)
