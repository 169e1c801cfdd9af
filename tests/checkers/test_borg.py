"""borg's own check, on real repositories with real damage, and in the midst of other work."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import parts
from tests.support.borg_repositories import BorgRepository, make_repository
from tests.support.checks import sample_all, sample_of, wait_for
from tests.support.processes import running
from tests.support.restic_repositories import flip

from holdfast.checkers import borg
from holdfast.checkers.borg import BorgChecker
from holdfast.checkers.borg_words import BorgWords
from holdfast.checkers.interface import Defect, Finding, Place, Report, Sample
from holdfast.errors import InputError, UnreachableError
from holdfast.testing import check_auditor

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> BorgRepository:
    parts.program("borg", "borgbackup")
    return make_repository(tmp_path_factory.mktemp("borg"))


@pytest.fixture
def repository(template: BorgRepository, tmp_path: Path) -> BorgRepository:
    return template.copy(tmp_path)


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep borg from the home of who runs the tests, and give it nothing that it may not have."""
    monkeypatch.setenv("BORG_BASE_DIR", str(tmp_path / "base"))
    monkeypatch.setenv("BORG_PASSPHRASE", "not needed")
    monkeypatch.setenv("BORG_REPO", "/elsewhere")


def open_borg(repository: BorgRepository, folder: Path, **options: str) -> BorgChecker:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    address = named.pop("address", str(repository.path))
    return BorgChecker(Place(address, named, folder))


def run(checker: BorgChecker, sample: Sample | None = None) -> Report:
    checker.scratch.mkdir(parents=True, exist_ok=True)
    return checker.run(sample or sample_all(checker), lambda _done, _total: None)


def test_the_extent_counts_the_segments(repository: BorgRepository, folder: Path) -> None:
    extent = open_borg(repository, folder).extent()
    segments = repository.segments()
    assert (extent.unit, extent.units, extent.groups) == ("segment", len(segments), ())
    assert extent.bytes == sum(segment.stat().st_size for segment in segments)
    assert extent.tool.startswith("borg 1.")


def test_an_intact_repository_is_checked_without_a_passphrase(
    repository: BorgRepository, folder: Path
) -> None:
    checker = open_borg(repository, folder)
    progress: list[tuple[int, int]] = []
    sample = sample_all(checker)
    report = checker.run(sample, lambda done, total: progress.append((done, total)))
    assert (report.finding, report.reason) == (Finding.INTACT, "")
    assert report.checked == report.units == sample.units
    assert report.read_bytes == sum(file.stat().st_size for file in repository.segments())
    assert progress[-1] == (sample.units, sample.units)
    assert "Finished full repository check, no problems found." in report.words


def test_a_sample_goes_on_where_the_last_one_stopped(
    repository: BorgRepository, folder: Path
) -> None:
    """A slow borg is imitated by its place: it has done all but the last segments."""
    checker = open_borg(repository, folder)
    segments = repository.segments()
    checker.extent()
    repository.call("config", str(repository.path), "last_segment_checked", segments[-4].name)
    report = run(checker, sample_of(units=3))
    assert (report.finding, report.checked, report.units) == (Finding.INTACT, 3, len(segments))
    assert report.read_bytes == sum(file.stat().st_size for file in segments[-3:])
    again = run(checker, sample_of(units=3))
    assert again.checked >= 3
    assert "no problems found" in again.words


def test_a_sample_that_reaches_the_end_begins_anew(
    repository: BorgRepository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(borg, "PAUSE_SECONDS", 0.0)
    checker = open_borg(repository, folder)
    segments = repository.segments()
    checker.extent()
    repository.call("config", str(repository.path), "last_segment_checked", segments[-3].name)
    report = run(checker, sample_of(units=len(segments) - 1))
    assert (report.finding, report.checked) == (Finding.INTACT, len(segments))


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def truncate(path: Path) -> None:
    os.truncate(path, 10_000)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def replace(path: Path) -> None:
    """Replace a segment by another one, which is valid by itself."""
    other = min(path.parent.iterdir(), key=lambda file: int(file.name))
    shutil.copyfile(other, path)


@pytest.mark.parametrize(
    ("harm", "defect"),
    [
        (flip, Defect.CHANGED),
        (zero, Defect.CHANGED),
        (truncate, Defect.TRUNCATED),
        (empty, Defect.CHANGED),
    ],
)
def test_a_damaged_segment_is_named_at_each_look(
    repository: BorgRepository, folder: Path, harm: Callable[[Path], None], defect: Defect
) -> None:
    checker, segment = open_borg(repository, folder), repository.data_segment()
    checker.extent()
    harm(segment)
    name = f"segment {segment.name}"
    report = run(checker, sample_of(units=2))
    assert report.finding is Finding.DAMAGED
    assert [(unit.name, unit.defect, unit.group) for unit in report.damaged] == [
        (name, defect, name)
    ]
    assert "errors found" in report.words
    second = run(checker, sample_of(name))
    assert second.damaged == report.damaged
    assert second.verified == ()


def test_a_second_look_at_what_was_mended_is_intact_and_does_not_move_borg_s_place(
    repository: BorgRepository, folder: Path
) -> None:
    checker, segment = open_borg(repository, folder), repository.data_segment()
    checker.extent()
    place = ("config", str(repository.path), "last_segment_checked")
    repository.call(*place, "7")
    for name in (f"segment {segment.name}", "segment 0"):
        report = run(checker, sample_of(name))
        assert (report.finding, report.verified) == (Finding.INTACT, (name,))
    assert repository.call(*place).stdout == "7\n"


@pytest.mark.parametrize("harm", [Path.unlink, replace])
def test_only_a_check_of_all_segments_finds_one_that_is_missing_or_was_replaced(
    repository: BorgRepository, folder: Path, harm: Callable[[Path], None]
) -> None:
    checker, segment = open_borg(repository, folder), repository.data_segment()
    checker.extent()
    harm(segment)
    assert run(checker, sample_of(units=1)).finding is Finding.INTACT
    report = run(checker, sample_of(units=1000))
    (unit,) = report.damaged
    assert (unit.name, unit.defect) == (f"segment {segment.name}", Defect.MISSING)
    assert run(checker, sample_of(unit.group)).damaged == report.damaged


def test_that_all_segments_are_gone_is_damage_though_borg_finds_no_problem(
    repository: BorgRepository, folder: Path
) -> None:
    checker = open_borg(repository, folder)
    before = checker.extent()
    shutil.rmtree(repository.path / "data")
    (repository.path / "data").mkdir()
    assert checker.extent() == before
    for sample in (sample_all(checker), sample_of(units=1), sample_of("data")):
        report = run(checker, sample)
        assert [(unit.name, unit.defect) for unit in report.damaged] == [("data", Defect.MISSING)]


def test_a_repair_is_only_suggested(repository: BorgRepository, folder: Path) -> None:
    checker = open_borg(repository, folder)
    flip(repository.data_segment())
    damage = checker.locate(run(checker))
    assert damage.commands == (("borg", "check", "--repair", str(repository.path)),)
    assert damage.loses_data
    assert not hasattr(checker, "repair")


@contextmanager
def locked(repository: BorgRepository) -> Iterator[None]:
    program = parts.program("borg", "borgbackup")
    command = [program, "with-lock", str(repository.path), "sleep", "1000"]
    environment = {name: os.environ[name] for name in os.environ if name != "BORG_REPO"}
    with running(command, env={**environment, "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes"}):
        wait_for((repository.path / "lock.exclusive").exists)
        yield


def test_a_lock_of_others_is_never_damage(repository: BorgRepository, folder: Path) -> None:
    checker = open_borg(repository, folder, lock_wait="1")
    sample = sample_all(checker)
    with locked(repository):
        report = run(checker, sample)
    assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ())
    assert "locked" in report.reason
    assert run(checker, sample).finding is Finding.INTACT


def test_a_backup_waits_for_a_check_and_the_check_for_a_backup(
    repository: BorgRepository, folder: Path
) -> None:
    (repository.source / "new").write_bytes(os.urandom(100_000))
    checker = open_borg(repository, folder)
    sample = sample_all(checker)
    command = [sys.executable, "-c", "import time; time.sleep(2)"]
    with running(
        [parts.program("borg", "borgbackup"), "with-lock", str(repository.path), *command],
        env={**os.environ, "BORG_REPO": "", "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes"},
    ):
        wait_for((repository.path / "lock.exclusive").exists)
        assert run(checker, sample).finding is Finding.INTACT
    repository.back_up("another")
    assert run(checker).finding is Finding.INTACT


def test_a_repository_that_is_not_there_is_a_mistake_at_first_and_an_outage_later(
    repository: BorgRepository, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no borg repository in"):
        open_borg(repository, folder, address=str(tmp_path)).extent()
    checker = open_borg(repository, folder)
    sample = sample_all(checker)
    repository.path.rename(tmp_path / "unmounted")
    with pytest.raises(UnreachableError):
        checker.extent()
    report = run(checker, sample)
    assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"address": "relative"}, "give the whole path"),
        ({"address": "/srv/repository::archive"}, "without an archive"),
        ({"address": ""}, "needs an address"),
        ({"lock_wait": "long"}, "number of seconds"),
        ({"passphrase": "x"}, "passphrase holds a secret"),
    ],
)
def test_what_can_not_be_used_is_refused(
    repository: BorgRepository, folder: Path, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        open_borg(repository, folder, **options)


def stand_in(path: Path, version: str, program: str) -> str:
    """Write a program that calls itself borg, and is not."""
    asked = f"if sys.argv[1] == '--version': sys.exit(print('borg {version}'))"
    borg_path = f"BORG = {parts.program('borg', 'borgbackup')!r}"
    lines = (f"#!{sys.executable}", "import os, sys, time", borg_path, asked, program)
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "program",
    [
        "print('Finished full repository check, no problems found.')",
        'print(\'{"type": "log_message"\'); sys.exit(1)',
        "print('[1, 2, 3]'); print('{}'); print('{\"type\": \"log_message\"}'); sys.exit(1)",
        "sys.stdout.buffer.write(os.urandom(1_000_000)); sys.exit(1)",
        "os.kill(os.getpid(), 9)",
        "sys.exit(107)",
        "pass",
    ],
)
def test_words_that_make_no_sense_are_neither_a_pass_nor_damage(
    repository: BorgRepository, folder: Path, tmp_path: Path, program: str
) -> None:
    sample = sample_all(open_borg(repository, folder))
    fake = stand_in(tmp_path / "fake", "1.4.0", program)
    report = run(open_borg(repository, folder, program=fake), sample)
    assert (report.finding, report.checked) == (Finding.UNKNOWN, 0)
    assert report.tool == "borg 1.4.0"


def test_an_upgrade_between_count_and_check_is_no_trouble(
    repository: BorgRepository, folder: Path, tmp_path: Path
) -> None:
    sample = sample_all(open_borg(repository, folder))
    newer = stand_in(tmp_path / "newer", "1.9.1", "os.execv(BORG, [BORG, *sys.argv[1:]])")
    report = run(open_borg(repository, folder, program=newer), sample)
    assert (report.finding, report.tool) == (Finding.INTACT, "borg 1.9.1")


def test_borg_2_is_refused(repository: BorgRepository, folder: Path, tmp_path: Path) -> None:
    fake = stand_in(tmp_path / "fake", "2.0.0", "pass")
    with pytest.raises(InputError, match=r"borg 2.0.0 keeps repositories otherwise"):
        open_borg(repository, folder, program=fake).extent()


def test_a_borg_that_never_ends_is_stopped_before_the_deadline(
    repository: BorgRepository, folder: Path, tmp_path: Path
) -> None:
    open_borg(repository, folder).extent()
    fake = stand_in(tmp_path / "fake", "1.4.0", "time.sleep(1000)")
    began = time.monotonic()
    report = run(open_borg(repository, folder, program=fake), sample_of(units=1, seconds=3))
    assert (report.finding, report.reason) == (Finding.UNKNOWN, "borg did not end in time")
    assert time.monotonic() - began < 60


@pytest.mark.slow(seconds=10)
def test_a_repository_over_ssh_is_checked(
    repository: BorgRepository, folder: Path, ssh_command: str
) -> None:
    checker = open_borg(
        repository,
        folder,
        address=f"ssh://127.0.0.1{repository.path}",
        rsh=ssh_command,
        remote_path=parts.program("borg", "borgbackup"),
    )
    extent = checker.extent()
    assert extent.units == len(repository.segments())
    assert checker.extent() == extent
    report = run(checker, sample_of(units=1))
    assert (report.finding, report.checked > 0) == (Finding.INTACT, True)
    segment = repository.data_segment()
    flip(segment)
    report = run(checker, sample_of(units=1000))
    assert [unit.name for unit in report.damaged] == [f"segment {segment.name}"]
    assert run(checker, sample_of(report.damaged[0].group)).damaged == report.damaged


CUT = """
import sys
from subprocess import PIPE, Popen as start
with start(sys.argv[1:], stderr=PIPE) as ssh:
    for line in ssh.stderr:
        if b"Starting repository check" in line:
            ssh.kill()
"""


def test_a_connection_that_breaks_in_mid_check_is_an_outage(
    repository: BorgRepository, folder: Path, tmp_path: Path, ssh_command: str
) -> None:
    (tmp_path / "cut.py").write_text(CUT)
    address = f"ssh://127.0.0.1{repository.path}"
    rsh = f"{sys.executable} {tmp_path / 'cut.py'} {ssh_command}"
    checker = open_borg(repository, folder, address=address, rsh=rsh)
    for _ in range(20):  # until the connection breaks before the check has ended
        report = run(checker, sample_of(units=1))
        if report.finding is not Finding.INTACT:
            break
    # What borg says depends on where the connection broke. It is never damage.
    assert report.finding in {Finding.UNREACHABLE, Finding.UNKNOWN}
    assert (report.damaged, report.checked) == ((), 0)


def test_a_server_that_is_away_is_an_outage(repository: BorgRepository, folder: Path) -> None:
    address = f"ssh://127.0.0.1{repository.path}"
    checker = open_borg(repository, folder, address=address, rsh="ssh -p 1 -o BatchMode=yes")
    with pytest.raises(UnreachableError, match="can't be reached"):
        checker.extent()
    report = run(checker, sample_of(units=1))
    assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ())


def test_borg_keeps_the_promises_of_an_auditor(
    repository: BorgRepository, folder: Path, tmp_path: Path
) -> None:
    def damage() -> list[str]:
        flip(repository.data_segment())
        return [f"segment {repository.data_segment().name}"]

    @contextmanager
    def away() -> Iterator[None]:
        repository.path.rename(tmp_path / "away")
        yield
        (tmp_path / "away").rename(repository.path)

    check_auditor(BorgChecker, Place(str(repository.path), {}, folder), damage, away=away)


def message_of(level: str, name: str, text: object) -> str:
    record = {"type": "log_message", "levelname": level, "name": name, "message": text}
    return json.dumps(record)


@pytest.mark.parametrize(
    "message",
    [
        message_of("ERROR", "borg.repository", 5),
        message_of("INFO", "borg.repository", "see [segment 3, offset 8]"),
        message_of("ERROR", "borg.archiver", "see [segment 3, offset 8]"),
        message_of(
            "ERROR", "borg.repository", "rebuilt index: <not found>  committed index: (2, 8)"
        ),
        '["log_message"]',
        "{{{",
    ],
)
def test_a_message_that_is_no_verdict_names_no_damage(message: str) -> None:
    words = BorgWords()
    words.take(message)
    assert words.damaged() == []


def test_borg_itself_is_not_asked_for_its_passphrase(
    repository: BorgRepository, folder: Path, tmp_path: Path
) -> None:
    program = "print(dict(os.environ), sys.argv); sys.exit(2)"
    fake = stand_in(tmp_path / "fake", "1.2.4", program)
    open_borg(repository, folder).extent()
    report = run(open_borg(repository, folder, program=fake), sample_of(units=1))
    assert "not needed" not in report.words
    assert "'BORG_BASE_DIR'" in report.words
