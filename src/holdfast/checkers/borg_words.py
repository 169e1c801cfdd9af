"""Reads what `borg check --repository-only --log-json --debug` prints.

borg names a segment before it reads it, so what was checked is counted and not reckoned from the
first and the last number, between which there are gaps.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from holdfast import jsontext
from holdfast.checkers.interface import DamagedUnit, Defect
from holdfast.checkers.tool_process import Excerpt

LINES = re.compile(rb"^\{[^\n]*\}\s*$", re.MULTILINE)

_NOT_FOUND = r"rebuilt index: <not found>\s+committed index: \((\d+), \d+\)"


@dataclass
class BorgWords:
    """What one call of `borg check` printed."""

    segments: int | None = None  # in the repository
    checked: set[int] = field(default_factory=set)
    current: int | None = None  # the segment that is read
    is_at_end: bool = False  # the last segment was checked
    verdict: bool | None = None  # borg's own: no problems, errors, or it did not come to one
    failures: list[tuple[str, str]] = field(default_factory=list)  # kind and message
    said: Excerpt = field(default_factory=Excerpt)  # without what is for developers
    _broken: dict[int, DamagedUnit] = field(default_factory=dict)
    _lost: dict[int, DamagedUnit] = field(default_factory=dict)

    def take(self, line: str) -> None:
        """Read one line; one that is no message of borg's says nothing."""
        try:
            record = jsontext.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(record, dict) and record.get("type") == "log_message":
            self._take_message(record)

    def damaged(self) -> list[DamagedUnit]:
        """Return the segments that borg calls damaged, if it came to that verdict."""
        if self.verdict is not False:
            return list(self._broken.values())
        return list({**self._lost, **self._broken}.values())

    def _take_message(self, record: dict[str, Any]) -> None:
        message = str(record.get("message", "")).removeprefix("Remote: ")
        if record.get("levelname") != "DEBUG":
            self.said.add(f"{message}\n".encode(errors="replace"))
        if match := re.fullmatch(r"checking segment file .*?(\d+)\.\.\.", message):
            self.current = int(match[1])
            self.checked.add(self.current)
        elif match := re.fullmatch(r"Found (\d+) segments", message):
            self.segments = int(match[1])
        elif message.startswith("finished segment check at segment "):
            self.is_at_end = True
        elif match := re.search(r"\[segment (\d+), offset \d+\]", message):
            self._add_broken(int(match[1]), message, record)
        elif match := re.search(_NOT_FOUND, message):
            segment = int(match[1])
            detail = "objects that the index lists are not in it"
            unit = DamagedUnit(_name(segment), Defect.MISSING, f"index {segment}", detail)
            self._lost.setdefault(segment, unit)
        elif match := re.match("Finished (?:partial|full) repository check, (.*)", message):
            self.verdict = match[1].startswith("no problems")
        elif record.get("levelname") in {"ERROR", "CRITICAL"}:
            self.failures.append((str(record.get("msgid", "")), message))

    def _add_broken(self, segment: int, message: str, record: dict[str, Any]) -> None:
        if record.get("levelname") != "ERROR" or record.get("name") != "borg.repository":
            return
        defect = Defect.TRUNCATED if "short read" in message else Defect.CHANGED
        detail = message.removeprefix("Data integrity error: ")
        unit = DamagedUnit(_name(segment), defect, _name(segment), detail)
        self._broken.setdefault(segment, unit)


def _name(segment: int) -> str:
    return f"segment {segment}"
