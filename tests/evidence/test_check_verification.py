"""Checks in a log are verified for form and order, and counted apart from what proofs show."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.sample_checks import ATTIC, MINUTE, START, failed, passed_check
from tests.support.sample_log import SIGNER, Record, sample

from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.decision import Freshness, Telemetry
from holdfast.evidence.finding import Fault
from holdfast.evidence.leaf import CheckResponse, Leaf, Outcome, Step, StorageCheck, encode
from holdfast.evidence.log import Entry
from holdfast.evidence.verification import Report, verify
from holdfast.model.observation import Observation

KEPT = Path(__file__).parent / "data" / "checks.bundle"
HOUR = 60 * MINUTE
FIRST = passed_check(1, START)
SECOND = failed(passed_check(2, START + HOUR))
REPAIRED = CheckResponse(
    START + HOUR, ATTIC, 2, Step.REPAIRED, (SECOND.damaged[0].name,), "from the source"
)
THIRD = passed_check(3, START + 2 * HOUR)


def log_with(*leaves: Leaf) -> Record:
    """Return the sample with more leaves, signed by its operator."""
    record = sample()
    for leaf in leaves:
        record.add(leaf)
    record.sign()
    return record


def report_on(*leaves: Leaf) -> Report:
    return verify(log_with(*leaves), SIGNER.verifier)


def faults_in(*leaves: Leaf) -> list[tuple[Fault, str]]:
    return [(finding.fault, finding.what) for finding in report_on(*leaves).findings]


def test_checks_are_counted_apart_from_proofs() -> None:
    report = report_on(FIRST, SECOND, REPAIRED, THIRD)
    assert report.fine, report.findings
    assert (report.audits, report.proofs, report.checks) == (6, 5, 3)
    assert report.facts()["checks"] == 3


def test_checks_that_were_written_once_are_read_and_written_the_same_for_good(
    tmp_path: Path,
) -> None:
    record = Record()
    for leaf in (FIRST, SECOND, REPAIRED, THIRD):
        record.add(leaf)
    record.sign()
    write_bundle(record, tmp_path / "checks.bundle")
    assert (tmp_path / "checks.bundle").read_bytes() == KEPT.read_bytes()
    report = verify(Bundle.open(KEPT), SIGNER.verifier)
    assert report.fine, report.findings
    assert (report.audits, report.proofs, report.checks) == (0, 0, 3)


@pytest.mark.parametrize("number", [1, 3, 9])
def test_a_gap_or_a_double_in_the_numbers_of_checks_is_found(number: int) -> None:
    said = f"it is check {number} of its holding, after check 1"
    assert faults_in(FIRST, replace(SECOND, number=number)) == [(Fault.ORDER, said)]


def test_each_holding_has_numbers_of_its_own() -> None:
    loft = replace(ATTIC, id=8, name="loft")
    assert report_on(FIRST, passed_check(1, START, loft), SECOND).fine
    assert not report_on(FIRST, passed_check(2, START, loft)).fine


def test_a_holding_may_be_renamed_but_not_be_moved_or_checked_otherwise() -> None:
    assert report_on(FIRST, replace(SECOND, holding=replace(ATTIC, name="loft"))).fine
    said = "the holding had another kind or address before"
    for other in (replace(ATTIC, kind="names"), replace(ATTIC, address="/srv/copy")):
        assert faults_in(FIRST, replace(SECOND, holding=other)) == [(Fault.ORDER, said)]


@pytest.mark.parametrize("check", [0, 2])
def test_a_response_to_no_check_is_found(check: int) -> None:
    said = f"it responds to check {check}, which is not before it"
    assert faults_in(FIRST, replace(REPAIRED, check=check)) == [(Fault.ORDER, said)]


def young(check: StorageCheck) -> StorageCheck:
    seen = Telemetry(Freshness.FRESH, Observation(0.0, 0.0, 0.0, 0.0, 1.0), check.decision.at + 1)
    return replace(check, decision=replace(check.decision, telemetry=seen))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda check: replace(check, began_at=check.decision.at - 1),
            "decision, beginning, end and verdict are not in this order",
        ),
        (
            lambda check: replace(check, ended_at=check.at + 1),
            "decision, beginning, end and verdict are not in this order",
        ),
        (
            lambda check: replace(check, due_at=check.decision.at - 1),
            "it was due before it was decided",
        ),
        (young, "its observation is younger than its decision"),
    ],
)
def test_times_of_a_check_that_run_backwards_are_found(
    change: Callable[[StorageCheck], StorageCheck], said: str
) -> None:
    assert faults_in(change(FIRST)) == [(Fault.ORDER, said)]


def test_a_check_before_the_one_that_precedes_it_is_found() -> None:
    early = passed_check(2, START - HOUR)
    assert faults_in(FIRST, early) == [(Fault.ORDER, "it was recorded before what precedes it")]


def test_a_proof_beside_a_check_is_found() -> None:
    record = sample()
    record.entries_.append(Entry(encode(FIRST), bytes(96)))
    record.sign()
    report = verify(record, SIGNER.verifier)
    assert [str(finding) for finding in report.findings] == [
        "leaf 11: it has a proof beside it, but is no audit"
    ]


def test_words_that_were_edited_are_found() -> None:
    edited = replace(FIRST, words=FIRST.words.replace("no errors", "3 errors"))
    assert faults_in(edited) == [
        (Fault.MALFORMED, "the tool's words don't have the hash that it names")
    ]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b'"checked":8,', b'"checked":0,', "read 0 of 164 units did not pass"),
        (b'"damaged_units":0,', b'"damaged_units":3,', "found damage did not pass"),
        (b'"outcome":"passed"', b'"outcome":"failed"', "names a damaged unit"),
        (b'"tool":"restic 0.14.0"', b'"tool":""', "names its tool"),
        (b'"name":"attic"', rb'"name":"at\ntic"', "a text of one line"),
        (rb"packs\\nno", rb"packs\u001b[2Jno", "a text of one line"),
    ],
)
def test_a_check_that_no_honest_owner_writes_is_found(
    before: bytes, after: bytes, said: str
) -> None:
    record = sample()
    content = encode(FIRST)
    assert before in content
    record.entries_.append(Entry(content.replace(before, after), None))
    record.sign()
    (finding,) = verify(record, SIGNER.verifier).findings
    assert finding.fault is Fault.MALFORMED
    assert said in finding.what


def test_a_tool_or_an_owner_that_lies_is_not_found() -> None:
    """Unlike a proof, a check can be invented: this is why it is counted apart."""
    invented = replace(SECOND, outcome=Outcome.PASSED, damaged=(), damaged_units=0, reason="")
    report = report_on(FIRST, invented)
    assert report.fine
    assert (report.proofs, report.checks) == (5, 2)
