"""What a check found: how it stands, in one sentence, and what cures it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import HoldfastError


class Grade(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    SKIPPED = "skipped"  # it depends on what a fault keeps from being looked at


@dataclass(frozen=True)
class Check:
    part: str
    grade: Grade
    found: str
    cure: str | None = None


def ok(part: str, found: str) -> Check:
    return Check(part, Grade.OK, found)


def warning(part: str, found: str, cure: str) -> Check:
    return Check(part, Grade.WARNING, found, cure)


def fault(part: str, found: str, cure: str) -> Check:
    return Check(part, Grade.FAULT, found, cure)


def skipped(part: str, why: str) -> Check:
    return Check(part, Grade.SKIPPED, f"not looked at: {why}")


def guarded(part: str, look: Callable[[], Iterable[Check]], cure: str) -> list[Check]:
    """Return what a look finds; one that can't be finished is a fault with this cure."""
    try:
        return list(look())
    except (HoldfastError, OSError) as error:
        return [fault(part, one_line(str(error)), cure)]


def one_line(text: str) -> str:
    return " ".join(text.split())
