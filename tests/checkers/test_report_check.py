"""A report that contradicts itself says nothing about the data, and never stops the service."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.sample_checks import PASSED

from holdfast.checkers.interface import DamagedUnit, Defect, Extent, Finding, Group, Report
from holdfast.checkers.report_check import (
    LARGEST,
    NO_REASON,
    validate_extent,
    validate_report,
)
from holdfast.errors import InputError
from holdfast.evidence import leaf
from holdfast.evidence.escaping import escape_words, hash_words

INTACT = Report(
    finding=Finding.INTACT,
    reason="",
    units=164,
    checked=8,
    damaged=(),
    verified=("4f",),
    read_bytes=40_000_000,
    requests=11,
    began=1_900_000_000_000,
    ended=1_900_000_060_000,
    tool="restic 0.14.0",
    words="no errors were found",
)
UNIT = DamagedUnit("a pack", Defect.CHANGED, "4f")
DAMAGED = replace(INTACT, finding=Finding.DAMAGED, reason="bad", damaged=(UNIT,), verified=())


@pytest.mark.parametrize(
    "report", [INTACT, DAMAGED, replace(INTACT, checked=0), replace(DAMAGED, checked=0)]
)
def test_a_report_that_makes_sense_is_left_alone(report: Report) -> None:
    assert validate_report(report) == report


def test_damaged_units_without_a_name_are_left_out() -> None:
    nameless = replace(UNIT, name="")
    judged = validate_report(replace(DAMAGED, damaged=(nameless, UNIT)))
    assert (judged.finding, judged.damaged) == (Finding.DAMAGED, (UNIT,))
    assert validate_report(replace(DAMAGED, damaged=(nameless,))).damaged == ()


@pytest.mark.parametrize("finding", [Finding.UNREACHABLE, Finding.UNKNOWN])
def test_a_report_without_its_reason_gets_one(finding: Finding) -> None:
    assert validate_report(replace(INTACT, finding=finding)).reason == NO_REASON
    assert validate_report(replace(DAMAGED, finding=finding)).reason == "bad"


@pytest.mark.parametrize(
    ("report", "changes", "said"),
    [
        (INTACT, {"checked": -1}, "checked is not a number from 0"),
        (INTACT, {"units": 10**30}, "units is not a number from 0"),
        (INTACT, {"read_bytes": True}, "read_bytes is not a number"),
        (INTACT, {"requests": 1.5}, "requests is not a number"),
        (INTACT, {"began": -1}, "began is not a number"),
        (INTACT, {"ended": "now"}, "ended is not a number"),
        (INTACT, {"damaged": (UNIT,)}, "intact and names damaged units"),
        (DAMAGED, {"checked": -1}, "checked is not a number"),
    ],
)
def test_a_report_that_makes_no_sense_says_nothing_about_the_data(
    report: Report, changes: dict[str, Any], said: str
) -> None:
    judged = validate_report(replace(report, **changes))
    assert (judged.finding, judged.checked, judged.damaged, judged.verified) == (
        *(Finding.UNKNOWN, 0, (), ()),
    )
    assert judged.reason.startswith("the auditor's report makes no sense: ")
    assert said in judged.reason
    assert (judged.tool, judged.words) == (report.tool, report.words)
    assert validate_report(judged) == judged


@pytest.mark.parametrize(
    "report",
    [
        DAMAGED,
        replace(DAMAGED, units=LARGEST, checked=LARGEST, read_bytes=LARGEST, requests=LARGEST),
        replace(DAMAGED, damaged=(replace(UNIT, name="a\nb\x1b[2J", detail="\x00"),) * 99),
        replace(DAMAGED, words="\x1b" * 4096),
    ],
)
def test_whatever_makes_sense_can_be_recorded(report: Report) -> None:
    judged = validate_report(report)
    units = [leaf.DamagedUnit.from_tool(u.name, u.defect, u.detail) for u in judged.damaged]
    check = replace(
        PASSED,
        outcome=leaf.Outcome.FAILED,
        reason=judged.reason,
        units=judged.units,
        checked=judged.checked,
        damaged=tuple(units[:64]),
        damaged_units=len(units),
        read_bytes=2 * judged.read_bytes,
        requests=2 * judged.requests,
        words=escape_words(judged.words),
        words_hash=hash_words(judged.words),
    )
    assert leaf.decode(leaf.encode(check)) == check


EXTENT = Extent("pack", 3, 30, "tool", (Group("a", 1, 10), Group("b", 2, 20)))


def test_an_extent_that_makes_sense_is_taken_as_it_is() -> None:
    assert validate_extent(EXTENT) is EXTENT


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": ""},
        {"units": -1},
        {"bytes": 1.5},
        {"groups": (Group("", 1, 1),)},
        {"groups": (Group("a", 1, 1), Group("a", 1, 1))},
        {"groups": (Group("a", -1, 1),)},
    ],
)
def test_an_extent_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="makes no sense"):
        validate_extent(replace(EXTENT, **changes))
