"""Judges a report before anyone acts on it: one that makes no sense says nothing about the data.

A checker may come from another package, and repeats what a tool said. Both may be wrong.
"""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.checkers.interface import Extent, Finding, Report
from holdfast.checkers.process_checker import without_result
from holdfast.errors import InputError

LARGEST = 2**50  # of a count, so that all sums of them can be recorded
NO_REASON = "the auditor gives no reason"


def validate_report(report: Report) -> Report:
    """Return the report, or one that says that nothing is known if it contradicts itself.

    Damaged units without a name are left out.
    """
    for contradiction in _contradictions(report):
        return without_result(
            Finding.UNKNOWN,
            f"the auditor's report makes no sense: {contradiction}",
            began=report.began if _is_count(report.began) else 0,
            ended=report.ended if _is_count(report.ended) else 0,
            words=report.words,
            tool=report.tool,
        )
    silent = report.finding in {Finding.UNREACHABLE, Finding.UNKNOWN} and not report.reason
    named = tuple(unit for unit in report.damaged if unit.name)
    return replace(report, reason=NO_REASON if silent else report.reason, damaged=named)


def validate_extent(extent: Extent) -> Extent:
    """Return what a checker says there is; raise if that makes no sense."""
    names = [group.name for group in extent.groups]
    counts = [extent.units, extent.bytes]
    counts += [number for group in extent.groups for number in (group.units, group.bytes)]
    faults = {
        "it does not say what a unit is called": not extent.unit,
        "a group has no name": not all(names),
        "two groups have one name": len(set(names)) < len(names),
        f"a count is not a number from 0 to {LARGEST}": not all(map(_is_count, counts)),
    }
    for fault, present in faults.items():
        if present:
            raise InputError(f"what the auditor says of its storage makes no sense: {fault}")
    return extent


def _contradictions(report: Report) -> Iterator[str]:
    for name in ("units", "checked", "read_bytes", "requests", "began", "ended"):
        if not _is_count(getattr(report, name)):
            yield f"{name} is not a number from 0 to {LARGEST}"
    if report.finding is Finding.INTACT and report.damaged:
        yield "it calls the data intact and names damaged units"


def _is_count(number: int) -> bool:
    return type(number) is int and 0 <= number <= LARGEST
