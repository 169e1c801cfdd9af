"""Storage that leaves objects out of its listing, or lists what it does not give out."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.checks import open_at, sample_of
from tests.support.lying_s3 import LyingS3, lying_s3

from holdfast.checkers.interface import Checker, Defect, Finding, Report
from holdfast.checkers.process_checker import ProcessChecker

CONTENTS = [bytes([number]) * 4000 for number in range(1, 11)]
NAMES = [hashlib.sha256(content).hexdigest() for content in CONTENTS]
VICTIM = NAMES[3]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LyingS3]:
    monkeypatch.setattr("holdfast.checkers.hashed_objects.RETRY_DELAY_SECONDS", 0.01)
    with lying_s3() as server:
        server.objects = dict(zip(NAMES, CONTENTS, strict=True))
        yield server


@pytest.fixture(params=["names", "manifest"])
def checker(
    server: LyingS3, folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Checker:
    if request.param == "names":
        return open_at("names", server.address, folder, names="sha256")
    sums = tmp_path / "SUMS"
    sums.write_text("".join(f"{name}  {name}\n" for name in NAMES))
    return open_at("manifest", server.address, folder, manifest=str(sums))


def run(checker: Checker, *names: str) -> Report:
    assert isinstance(checker, ProcessChecker)
    return checker.run(sample_of(*(names or NAMES)), lambda _done, _total: None)


def test_an_object_that_the_listing_leaves_out_is_read_by_its_name(
    checker: Checker, server: LyingS3
) -> None:
    server.lies.unlisted = {VICTIM}
    assert checker.extent().vanished == ()
    report = run(checker)
    assert (report.finding, report.checked, report.damaged) == (Finding.INTACT, 10, ())


@pytest.mark.parametrize("sample", [NAMES, [VICTIM]])
def test_an_object_that_is_listed_but_not_given_out_is_damaged(
    checker: Checker, server: LyingS3, sample: list[str]
) -> None:
    server.lies.refused = {VICTIM}
    report = run(checker, *sample)
    assert report.finding is Finding.DAMAGED
    assert [(unit.name, unit.defect) for unit in report.damaged] == [(VICTIM, Defect.UNREADABLE)]
    assert (report.checked, len(report.verified)) == (len(sample), len(sample) - 1)


def test_a_storage_that_gives_out_nothing_is_away(checker: Checker, server: LyingS3) -> None:
    server.lies.refused = set(NAMES)
    report = run(checker)
    assert (report.finding, report.checked, report.damaged) == (Finding.UNREACHABLE, 0, ())


@pytest.mark.parametrize("replaced", [{VICTIM}, set(NAMES)])
def test_a_web_page_instead_of_an_object_is_no_damage(
    checker: Checker, server: LyingS3, replaced: set[str]
) -> None:
    server.lies.replaced = replaced
    report = run(checker)
    assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ())
    assert f"{server.address} answers with what is no part of" in report.reason


def test_an_object_that_was_written_over_is_damaged(checker: Checker, server: LyingS3) -> None:
    server.objects |= {VICTIM: b"other", NAMES[4]: b""}
    report = run(checker)
    assert {unit.name: unit.defect for unit in report.damaged} == {
        VICTIM: Defect.CHANGED,
        NAMES[4]: Defect.TRUNCATED,
    }
