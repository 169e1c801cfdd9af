"""rclone's own check of two places, with real damage at one of them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support import parts
from tests.support.checks import sample_all, sample_of
from tests.support.rclone_server import serving
from tests.support.restic_repositories import flip

from holdfast.checkers import rclone, rclone_remotes
from holdfast.checkers.interface import Defect, Finding, Place, Report, Sample
from holdfast.checkers.rclone import RcloneChecker
from holdfast.checkers.tool_process import Ended, Excerpt
from holdfast.errors import InputError, UnreachableError
from holdfast.testing import check_auditor

pytestmark = pytest.mark.slow

NAMES = ["one", "two", "three", "folder/deep/four", " space ", "#hash", "-dash", "größe;x", "empty"]
SIZE = 50_000


@dataclass(frozen=True)
class Copies:
    """A folder and its copy, with the same times."""

    origin: Path
    copy: Path

    def change(self, name: str, harm: Callable[[Path], None]) -> None:
        """Harm the copy as a disk does: its times stay."""
        path = self.copy / name
        times = path.stat()
        harm(path)
        if path.exists():
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    parts.program("rclone")
    made = Copies(tmp_path / "origin", tmp_path / "copy")
    for name in NAMES:
        content = os.urandom(SIZE) if name != "empty" else b""
        for folder in (made.origin, made.copy):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, (1_600_000_000, 1_600_000_000))
    return made


def open_rclone(copies: Copies, folder: Path, **options: str) -> RcloneChecker:
    address = options.pop("address", str(copies.copy))
    return RcloneChecker(Place(address, {"against": str(copies.origin), **options}, folder))


def run(checker: RcloneChecker, sample: Sample | None = None) -> Report:
    checker.scratch.mkdir(parents=True, exist_ok=True)
    return checker.run(sample or sample_all(checker), lambda _done, _total: None)


def test_the_extent_has_the_files_that_are_at_both_places(copies: Copies, folder: Path) -> None:
    (copies.origin / "not copied yet").write_bytes(b"new")
    (copies.copy / "only here").write_bytes(b"old")
    extent = open_rclone(copies, folder).extent()
    assert (extent.unit, extent.units) == ("file", len(NAMES))
    assert {group.name: group.bytes for group in extent.groups} == {
        name: SIZE if name != "empty" else 0 for name in NAMES
    }
    assert extent.tool.startswith("rclone 1.")


def test_equal_files_are_read_at_both_places(copies: Copies, folder: Path) -> None:
    checker = open_rclone(copies, folder)
    report = run(checker)
    assert (report.finding, report.reason, report.damaged) == (Finding.INTACT, "", ())
    assert set(report.verified) == set(NAMES)
    assert report.checked == report.units == len(NAMES)
    assert report.read_bytes == 2 * SIZE * (len(NAMES) - 1)


def test_only_the_sample_is_read(copies: Copies, folder: Path) -> None:
    checker = open_rclone(copies, folder)
    checker.extent()
    flip(copies.copy / "one")
    report = run(checker, sample_of("two", " space "))
    assert (report.finding, report.verified) == (Finding.INTACT, ("two", " space "))
    assert (report.checked, report.units) == (2, len(NAMES))


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def truncate(path: Path) -> None:
    os.truncate(path, 1000)


def replace(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


@pytest.mark.parametrize(
    ("harm", "defect"),
    [
        (flip, Defect.CHANGED),
        (zero, Defect.CHANGED),
        (replace, Defect.CHANGED),
        (truncate, Defect.TRUNCATED),
        (Path.unlink, Defect.MISSING),
    ],
)
@pytest.mark.parametrize("name", ["folder/deep/four", "größe;x"])
def test_a_damaged_file_is_named_and_all_others_are_verified(
    copies: Copies, folder: Path, name: str, harm: Callable[[Path], None], defect: Defect
) -> None:
    checker = open_rclone(copies, folder)
    sample = sample_all(checker)
    copies.change(name, harm)
    report = run(checker, sample)
    assert report.finding is Finding.DAMAGED
    (unit,) = report.damaged
    assert (unit.name, unit.defect, unit.group) == (name, defect, name)
    assert str(copies.origin) in unit.detail
    assert set(report.verified) == set(NAMES) - {name}
    assert run(checker, sample_of(name)).damaged == report.damaged


def test_which_of_two_files_is_damaged_is_not_claimed(copies: Copies, folder: Path) -> None:
    flip(copies.origin / "one")
    os.utime(copies.origin / "one", (1_600_000_000, 1_600_000_000))
    (unit,) = run(open_rclone(copies, folder)).damaged
    assert "can't say which" in unit.detail


def test_a_file_that_was_changed_at_the_origin_is_no_damage_unless_files_never_change(
    copies: Copies, folder: Path
) -> None:
    (copies.origin / "one").write_bytes(b"a new version")
    os.utime(copies.origin / "one", (1_700_000_000, 1_700_000_000))
    report = run(open_rclone(copies, folder))
    assert (report.finding, report.checked) == (Finding.INTACT, len(NAMES) - 1)
    assert "one" not in report.verified
    frozen = run(open_rclone(copies, folder, frozen="yes"))
    assert [unit.name for unit in frozen.damaged] == ["one"]


def test_a_file_that_changes_during_the_check_is_no_damage(copies: Copies, folder: Path) -> None:
    checker = open_rclone(copies, folder)
    sample = sample_all(checker)
    (copies.copy / "one").write_bytes(b"half of a new vers")
    os.utime(copies.copy / "one", (4_000_000_000, 4_000_000_000))
    report = run(checker, sample)
    assert (report.finding, report.checked) == (Finding.INTACT, len(NAMES) - 1)


def test_a_file_that_is_gone_from_the_origin_is_no_damage(copies: Copies, folder: Path) -> None:
    checker = open_rclone(copies, folder)
    sample = sample_all(checker)
    (copies.origin / "one").unlink()
    (copies.origin / "two").unlink()
    (copies.copy / "two").unlink()
    report = run(checker, sample)
    assert (report.finding, report.checked) == (Finding.INTACT, len(NAMES) - 2)
    alone = run(checker, sample_of("one"))
    assert (alone.finding, alone.checked) == (Finding.UNKNOWN, 0)


def test_a_file_that_vanished_is_told_by_the_extent(copies: Copies, folder: Path) -> None:
    checker = open_rclone(copies, folder)
    checker.extent()
    (copies.copy / "one").unlink()
    for path in (copies.copy / "two", copies.origin / "two"):
        path.unlink()
    for _ in range(2):
        extent = checker.extent()
        assert extent.vanished == ("one",)
        assert extent.units == len(NAMES) - 2


def test_a_folder_that_nothing_is_mounted_on_is_an_outage(
    copies: Copies, folder: Path, tmp_path: Path
) -> None:
    checker = open_rclone(copies, folder)
    sample = sample_all(checker)
    copies.copy.rename(tmp_path / "unmounted")
    for _ in range(2):
        with pytest.raises(UnreachableError):
            checker.extent()
        report = run(checker, sample)
        assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ())
        copies.copy.mkdir(exist_ok=True)


def test_an_origin_that_is_away_is_no_damage(copies: Copies, folder: Path, tmp_path: Path) -> None:
    checker = open_rclone(copies, folder)
    sample = sample_all(checker)
    copies.origin.rename(tmp_path / "unmounted")
    report = run(checker, sample)
    assert report.damaged == ()
    assert report.finding in {Finding.UNREACHABLE, Finding.UNKNOWN}


def webdav(url: str) -> str:
    return f':webdav,url="{url}":'


def test_damage_at_a_server_is_found(copies: Copies, folder: Path) -> None:
    with serving(copies.copy, "webdav") as server:
        checker = open_rclone(copies, folder, address=webdav(server.url))
        sample = sample_all(checker)
        assert run(checker, sample).finding is Finding.INTACT
        copies.change("one", flip)
        copies.change("two", Path.unlink)
        report = run(checker, sample)
    assert {(unit.name, unit.defect) for unit in report.damaged} == {
        ("one", Defect.CHANGED),
        ("two", Defect.MISSING),
    }


@pytest.mark.parametrize("in_a_row", [1, 10])
def test_a_server_that_dies_in_mid_check_is_an_outage(
    copies: Copies, folder: Path, monkeypatch: pytest.MonkeyPatch, in_a_row: int
) -> None:
    monkeypatch.setattr(rclone_remotes, "LOW_LEVEL_RETRIES", 1)
    monkeypatch.setattr(rclone, "MAX_FAILED_IN_A_ROW", in_a_row)
    reads: list[str] = []

    def die(path: str) -> None:
        if is_checking and path.strip("/"):
            reads.append(path)
            if len(reads) == 4:
                server.cut()

    is_checking = False
    with serving(copies.copy, "webdav", die) as server:
        checker = open_rclone(copies, folder, address=webdav(server.url))
        checker.extent()
        is_checking = True
        report = run(checker, sample_of("one", "two", "three", "#hash"))
    assert len(reads) >= 4
    assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ()), report


def test_a_server_that_is_away_is_an_outage(copies: Copies, folder: Path) -> None:
    with serving(copies.copy, "webdav") as server:
        checker = open_rclone(copies, folder, address=webdav(server.url))
        sample = sample_all(checker)
    with pytest.raises(UnreachableError, match="can't be reached"):
        checker.extent()
    report = run(checker, sample)
    assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ())


def test_objects_of_a_bucket_are_read_though_it_stores_checksums(
    copies: Copies, folder: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)  # rclone 1.60 can't use one
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    name = bucket.removeprefix("s3://")
    address = f':s3,provider=Other,env_auth=true,endpoint="{endpoint}":{name}/rclone'
    subprocess.run([parts.program("rclone"), "copy", str(copies.copy), address], check=True)
    report = run(open_rclone(copies, folder, address=address))
    assert (report.finding, report.checked) == (Finding.INTACT, len(NAMES))
    assert report.read_bytes == 2 * SIZE * (len(NAMES) - 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"against": ""}, "the option against is missing"),
        ({"against": "relative"}, "give the whole path"),
        ({"address": "relative"}, "give the whole path"),
        ({"address": "--config=/x"}, "is no remote"),
        ({"address": ':webdav,url="http://host",pass=secret:'}, "holds a secret"),
        ({"against": ":s3,secret_access_key=x:bucket"}, "holds a secret"),
        ({"frozen": "maybe"}, "yes or no"),
        ({"download": "no"}, "no option 'download'"),
    ],
)
def test_what_can_not_be_used_is_refused(
    copies: Copies, folder: Path, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        open_rclone(copies, folder, **options)


@pytest.mark.parametrize("address", ["nosuchremote:photos", "/nonexistent/folder"])
def test_a_remote_that_does_not_exist_is_refused_with_its_cure(
    copies: Copies, folder: Path, address: str
) -> None:
    with pytest.raises(InputError, match=r"rclone config|correct the address"):
        open_rclone(copies, folder, address=address).extent()


def test_places_with_nothing_in_common_are_refused(copies: Copies, folder: Path) -> None:
    with pytest.raises(InputError, match="no file in common"):
        open_rclone(copies, folder, address=str(copies.copy / "folder")).extent()


def stand_in(path: Path, version: str, program: str) -> str:
    """Write a program that calls itself rclone, and is not."""
    asked = f"if sys.argv[1] == 'version': sys.exit(print('rclone v{version}'))"
    real = f"RCLONE = {parts.program('rclone')!r}"
    lines = (f"#!{sys.executable}", "import os, sys, time", real, asked, program)
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "program",
    [
        "print('all is well')",
        "print('* nothing of ours'); sys.exit(1)",
        "print('{'); sys.exit(1)",
        "sys.stdout.buffer.write(os.urandom(1_000_000)); sys.exit(1)",
        "os.kill(os.getpid(), 9)",
        "sys.exit(7)",
    ],
)
def test_words_that_make_no_sense_are_neither_a_pass_nor_damage(
    copies: Copies, folder: Path, tmp_path: Path, program: str
) -> None:
    sample = sample_all(open_rclone(copies, folder))
    fake = stand_in(tmp_path / "fake", "1.99.0", program)
    report = run(open_rclone(copies, folder, program=fake), sample)
    assert (report.finding, report.checked, report.verified) == (Finding.UNKNOWN, 0, ())
    assert report.tool == "rclone 1.99.0"


def test_a_difference_that_only_rclone_claims_is_no_damage_if_its_word_can_not_be_confirmed(
    copies: Copies, folder: Path, tmp_path: Path
) -> None:
    sample = sample_all(open_rclone(copies, folder))
    fake = stand_in(tmp_path / "fake", "1.99.0", "print('+ one\\n* two'); sys.exit(1)")
    report = run(open_rclone(copies, folder, program=fake), sample)
    assert (report.finding, report.damaged) == (Finding.UNKNOWN, ())


def test_an_rclone_that_never_ends_is_stopped_before_the_deadline(
    copies: Copies, folder: Path, tmp_path: Path
) -> None:
    open_rclone(copies, folder).extent()
    fake = stand_in(tmp_path / "fake", "1.99.0", "time.sleep(1000)")
    report = run(open_rclone(copies, folder, program=fake), sample_of("one", seconds=3))
    assert (report.finding, report.reason) == (Finding.UNKNOWN, "rclone did not end in time")


def test_rclone_keeps_the_promises_of_an_auditor(
    copies: Copies, folder: Path, tmp_path: Path
) -> None:
    def damage() -> list[str]:
        copies.change("two", flip)
        return ["two"]

    @contextmanager
    def away() -> Iterator[None]:
        copies.copy.rename(tmp_path / "away")
        yield
        (tmp_path / "away").rename(copies.copy)

    place = Place(str(copies.copy), {"against": str(copies.origin)}, folder)
    check_auditor(RcloneChecker, place, damage, away=away)


@pytest.mark.parametrize(
    ("words", "complete"),
    [
        ("2026/01/01 Failed to check: 1 differences found\n= three\n", True),
        ("= three\n= Failed to check: 1 differences found\n", False),
        ("= three\n2026/01/01 Failed to check: connection refused\n", False),
    ],
)
def test_the_end_of_a_check_is_seen_in_whatever_order_its_streams_come(
    words: str, complete: bool
) -> None:
    excerpt = Excerpt()
    excerpt.add(words.encode())
    assert rclone._is_complete(Ended(1, excerpt)) is complete
