"""Kinds are opened by their names: ours always, those of other packages by their entry points."""

import shutil
from collections.abc import Callable
from importlib import invalidate_caches
from pathlib import Path

import pytest
from tests.support.checks import check, sample_of

from holdfast.checkers.hash_names import NamesChecker
from holdfast.checkers.interface import MAX_WORDS, Finding, Place
from holdfast.checkers.process_checker import ProcessChecker
from holdfast.checkers.registry import BUILT_IN, kinds, open_checker
from holdfast.errors import InputError

MODULE = """
from holdfast.checkers.process_checker import ProcessChecker, now, without_result
from holdfast.checkers.interface import Extent, Finding

class Trial(ProcessChecker):
    kind = "trial"

    def extent(self):
        return Extent("thing", 1, 1, "trial")

    def run(self, sample, on_progress):
        if self.place.options.get("fails"):
            raise ZeroDivisionError("on purpose")
        if "returns" in self.place.options:
            report = without_result(Finding.INTACT, "", began=1.5, ended=2)
            return report if self.place.options["returns"] == "fractions" else None
        reason = "one\\nline " * 1000
        print("noise", flush=True)
        return without_result(Finding.UNKNOWN, reason, began=now(), ended=now(), words="x" * 9999)
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what installs a package with entry points, for this process and those it starts."""

    def write(package: str, **points: str) -> None:
        site = tmp_path / package
        info = site / f"{package}-1.dist-info"
        info.mkdir(parents=True)
        (site / f"{package}.py").write_text(MODULE)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[holdfast.auditors]\n{lines}")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")
        invalidate_caches()

    return write


@pytest.fixture
def place(folder: Path) -> Place:
    return Place("here", {"names": "sha256"}, folder)


def test_ours_are_there_whatever_is_installed() -> None:
    assert {"command", "manifest", "names"} <= {*kinds()}


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
def test_each_of_ours_is_a_class_of_that_kind(kind: str) -> None:
    module, _, name = BUILT_IN[kind].partition(":")
    checker = getattr(__import__(module, fromlist=[name]), name)
    assert issubclass(checker, ProcessChecker)
    assert checker.kind == kind


def test_another_package_can_not_take_a_name_of_ours(install: Install, place: Place) -> None:
    install("usurper", names="usurper:Trial")
    assert type(open_checker("names", place)) is NamesChecker


def test_an_unknown_kind_is_refused_with_those_that_there_are(place: Place) -> None:
    with pytest.raises(InputError, match=r"there is no auditor 'tape': installed are .*names"):
        open_checker("tape", place)


def test_two_packages_with_one_kind_are_refused(install: Install, place: Place) -> None:
    install("first", trial="first:Trial")
    install("second", trial="second:Trial")
    with pytest.raises(InputError, match=r"several packages offer .*: first, second\. Uninstall"):
        open_checker("trial", place)


@pytest.mark.parametrize("value", ["no_such_module:Trial", "broken:Nothing"])
def test_an_auditor_that_can_not_be_loaded_is_named(
    install: Install, place: Place, value: str
) -> None:
    install("broken", trial=value)
    with pytest.raises(InputError, match="the auditor 'trial' of broken can't be loaded: "):
        open_checker("trial", place)


@pytest.mark.slow
def test_an_auditor_that_fails_is_reported_with_its_traceback(
    install: Install, folder: Path
) -> None:
    install("other", trial="other:Trial")
    report = check(open_checker("trial", Place("here", {"fails": "yes"}, folder)), sample_of())
    assert report.finding is Finding.UNKNOWN
    assert report.reason == "the check failed: ZeroDivisionError: on purpose"
    assert "in run" in report.words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("returns", "said"),
    [
        ("fractions", "the report of the auditor 'trial' is damaged"),
        ("nothing", "the check failed: AttributeError"),
    ],
)
def test_an_auditor_that_returns_no_report_is_named(
    install: Install, folder: Path, returns: str, said: str
) -> None:
    install("other", trial="other:Trial")
    report = check(open_checker("trial", Place("here", {"returns": returns}, folder)), sample_of())
    assert report.finding is Finding.UNKNOWN
    assert said in report.reason


@pytest.mark.slow
def test_what_an_auditor_says_is_bounded(install: Install, folder: Path) -> None:
    install("other", trial="other:Trial")
    report = check(open_checker("trial", Place("here", {}, folder)), sample_of())
    assert len(report.reason) == 500
    assert report.reason.startswith("one line one line")
    assert len(report.words) == MAX_WORDS


@pytest.mark.slow
def test_an_auditor_that_was_uninstalled_during_a_check_is_its_end(
    install: Install, folder: Path, tmp_path: Path
) -> None:
    install("other", trial="other:Trial")
    checker = open_checker("trial", Place("here", {}, folder))
    shutil.rmtree(tmp_path / "other")
    report = check(checker, sample_of())
    assert report.finding is Finding.UNKNOWN
    assert "there is no auditor 'trial'" in report.reason
