"""The result of one check: a grade, one sentence, and how to fix what is wrong."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import HoldfastError


class Grade(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    SKIPPED = "skipped"  # because a fault elsewhere prevents the check


@dataclass(frozen=True)
class Check:
    part: str
    grade: Grade
    found: str
    cure: str | None = None


def ok(part: str, message: str) -> Check:
    return Check(part, Grade.OK, message)


def warning(part: str, message: str, cure: str) -> Check:
    return Check(part, Grade.WARNING, message, cure)


def fault(part: str, message: str, cure: str) -> Check:
    return Check(part, Grade.FAULT, message, cure)


def skipped(part: str, why: str) -> Check:
    return Check(part, Grade.SKIPPED, f"not checked: {why}")


def run_check(part: str, check: Callable[[], Iterable[Check]], cure: str) -> list[Check]:
    """Return the check's results. A check that can't finish is a fault with this cure."""
    try:
        return list(check())
    except (HoldfastError, OSError) as error:
        return [fault(part, one_line(str(error)), cure)]


def one_line(text: str) -> str:
    return " ".join(text.split())
