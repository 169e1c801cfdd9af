"""A check runs in a process of its own: it survives the service, and ends once, in time."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from tests.support.checks import (
    check,
    end_of,
    is_alive,
    job_process,
    kill_jobs,
    open_at,
    sample_of,
    wait_for,
)
from tests.support.processes import running
from tests.support.small_disk import small_disk

from holdfast.checkers.interface import Checker, Finding, Running
from holdfast.checkers.job_folder import JobFolder
from holdfast.checkers.process_checker import MAX_STARTS
from holdfast.errors import InputError, MalformedError, StorageError

# Notes its process and that of a child which no signal but SIGKILL ends and which left its session;
# ends when it is let go.
PROGRAM = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
child = os.fork()
if not child:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for handle in (1, 2):
        os.close(handle)
    time.sleep(1000)
with (folder / "runs").open("a") as runs:
    print(os.getpid(), child, file=runs)
while not (folder / "go").exists():
    time.sleep(0.02)
print('{"checked": 3, "of": 30, "bytes": 300}')
"""
SERVICE = """
import sys, time, pathlib
from tests.support.checks import open_at, sample_of
checker = open_at("command", "here", pathlib.Path(sys.argv[1]), command=sys.argv[2])
pending = checker.start(sample_of())
pathlib.Path(sys.argv[3]).write_bytes(pending)
while True:
    checker.poll(pending)
    time.sleep(0.02)
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    return json.dumps([sys.executable, "-c", PROGRAM, str(tmp_path)])


@pytest.fixture
def checker(folder: Path, command: str) -> Checker:
    return open_at("command", "here", folder, command=command)


@pytest.fixture
def runs(tmp_path: Path) -> Callable[[], list[tuple[int, int]]]:
    """Return the processes of the program's runs so far, each with its child."""

    def read() -> list[tuple[int, int]]:
        path = tmp_path / "runs"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        pairs = [line.split() for line in lines if line.endswith("\n")]
        return [(int(process), int(child)) for process, child in pairs]

    return read


Runs = Callable[[], list[tuple[int, int]]]


@pytest.mark.slow
def test_a_check_survives_the_service_and_is_resumed_by_another(
    checker: Checker, folder: Path, command: str, tmp_path: Path, runs: Runs
) -> None:
    note = tmp_path / "pending"
    with running([sys.executable, "-c", SERVICE, folder, command, note]) as service:
        wait_for(runs)
        service.kill()
    pending = note.read_bytes()
    assert isinstance(checker.poll(pending), Running)
    (tmp_path / "go").touch()
    report = end_of(checker, pending)
    assert (report.finding, report.checked, report.units) == (Finding.INTACT, 3, 30)
    assert len(runs()) == 1, "it was not started again"
    assert not any(map(is_alive, runs()[0])), "it left no process behind"
    assert checker.poll(pending) == report


def test_start_has_no_effect(checker: Checker, folder: Path) -> None:
    assert checker.start(sample_of()) != checker.start(sample_of())
    assert not folder.exists()


@pytest.mark.slow
def test_many_pollers_start_one_job(folder: Path, command: str, tmp_path: Path, runs: Runs) -> None:
    checkers = [open_at("command", "here", folder, command=command) for _ in range(8)]
    pending, barrier = checkers[0].start(sample_of()), Barrier(8)

    def poll(checker: Checker) -> object:
        barrier.wait()
        return checker.poll(pending)

    with ThreadPoolExecutor(8) as pool:
        assert all(isinstance(answer, Running) for answer in pool.map(poll, checkers))
    (tmp_path / "go").touch()
    assert end_of(checkers[0], pending).checked == 3
    assert len(runs()) == 1


@pytest.mark.slow
def test_a_job_that_is_killed_is_started_again_and_its_programs_end_first(
    checker: Checker, folder: Path, tmp_path: Path, runs: Runs
) -> None:
    pending = checker.start(sample_of())
    checker.poll(pending)
    wait_for(runs)
    os.kill(job_process(folder), signal.SIGKILL)
    assert any(map(is_alive, runs()[0])), "what it started lives on"

    def is_restarted() -> bool:
        checker.poll(pending)
        return len(runs()) == 2

    wait_for(is_restarted)
    assert not any(map(is_alive, runs()[0]))
    (tmp_path / "go").touch()
    assert end_of(checker, pending).finding is Finding.INTACT


@pytest.mark.slow
def test_a_job_that_is_killed_every_time_is_given_up(checker: Checker, folder: Path) -> None:
    pending = checker.start(sample_of())
    while isinstance(report := checker.poll(pending), Running):
        kill_jobs(folder)
    assert report.finding is Finding.UNKNOWN
    assert report.reason == f"the process of the check ended {MAX_STARTS} times without a report"
    assert checker.poll(pending) == report


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
def test_what_never_ends_is_killed_at_the_deadline(
    checker: Checker,
    folder: Path,
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
    stopped: bool,
) -> None:
    """Also if its process hangs, and can't watch the deadline itself."""
    sample = sample_of()
    pending = checker.start(sample)
    checker.poll(pending)
    wait_for(runs)
    process = job_process(folder)
    if stopped:
        os.kill(process, signal.SIGSTOP)
    monkeypatch.setattr("holdfast.checkers.process_checker.now", lambda: sample.deadline)
    report = checker.poll(pending)
    assert not isinstance(report, Running)
    assert (report.finding, report.reason) == (Finding.UNKNOWN, "the check did not end in time")
    assert not any(map(is_alive, [process, *runs()[0]]))
    assert checker.poll(pending) == report
    monkeypatch.undo()
    assert checker.poll(pending) == report, "also if the clock was set back"


@pytest.mark.slow
def test_a_job_ends_at_its_deadline_though_no_service_looks(
    checker: Checker, folder: Path, runs: Runs
) -> None:
    pending = checker.start(sample_of(seconds=5))
    checker.poll(pending)
    wait_for(lambda: [*folder.glob("checks/*/report.json")])
    assert not [run for run in runs() if any(map(is_alive, run))]
    report = end_of(checker, pending)
    assert (report.finding, report.reason) == (Finding.UNKNOWN, "the check did not end in time")


@pytest.mark.slow
def test_a_check_that_is_cancelled_leaves_neither_process_nor_file(
    checker: Checker, folder: Path, runs: Runs
) -> None:
    pending = checker.start(sample_of())
    checker.poll(pending)
    wait_for(runs)
    process = job_process(folder)
    checker.cancel(pending)
    assert not any(map(is_alive, [process, *runs()[0]]))
    assert not [*(folder / "checks").iterdir()]


@pytest.mark.slow
def test_a_job_whose_folder_is_removed_ends(checker: Checker, folder: Path, runs: Runs) -> None:
    checker.poll(checker.start(sample_of(seconds=3600)))
    wait_for(runs)
    (job,) = folder.glob("checks/*")
    JobFolder(job).remove()
    wait_for(lambda: not any(map(is_alive, runs()[0])))


@pytest.mark.slow
def test_a_report_that_the_disk_damaged_is_made_anew(
    checker: Checker, folder: Path, tmp_path: Path, runs: Runs
) -> None:
    (tmp_path / "go").touch()
    pending = checker.start(sample_of())
    end_of(checker, pending)
    (report,) = folder.glob("checks/*/report.json")
    report.write_bytes(report.read_bytes()[:-9])
    assert end_of(checker, pending).finding is Finding.INTACT
    assert len(runs()) == 2


@pytest.mark.slow
def test_no_secret_of_the_environment_is_written(
    checker: Checker, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESTIC_PASSWORD", "correct horse")
    (tmp_path / "go").touch()
    end_of(checker, checker.start(sample_of()))
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 4
    assert not [path for path in files if b"correct horse" in path.read_bytes()]
    assert {path.stat().st_mode & 0o077 for path in files} == {0}, "nobody else may read them"


@pytest.mark.parametrize(
    "address", ["s3://key:secret@bucket", "rest:https://user:secret@host/path", "sftp://a:secret@b"]
)
def test_an_address_with_a_password_is_refused_without_showing_it(
    folder: Path, address: str
) -> None:
    with pytest.raises(InputError, match="the address holds a password") as refused:
        open_at("names", address, folder, names="sha256")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"manifest": "http://user:hunter2@host/SUMS"},
        {"manifest": "SUMS", "password": "hunter2"},
        {"manifest": "SUMS", "s3.secret": "hunter2"},
        {"manifest": "SUMS", "API_TOKEN": "hunter2"},
    ],
)
def test_an_option_with_a_secret_is_refused_without_showing_it(
    folder: Path, options: dict[str, str]
) -> None:
    with pytest.raises(InputError, match="in the environment or in a file") as refused:
        open_at("manifest", "here", folder, **options)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("kind", "options"), [("names", {"names": "sha256"}), ("manifest", {})])
def test_an_option_that_a_kind_does_not_have_is_refused(
    folder: Path, kind: str, options: dict[str, str]
) -> None:
    with pytest.raises(InputError, match=f"{kind} has no option 'speed': there are "):
        open_at(kind, "here", folder, **options, speed="3")


@pytest.mark.slow
def test_a_full_disk_is_named_and_the_check_runs_once_there_is_space(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk):
        command = json.dumps(["/bin/echo", '{"checked": 1, "of": 1}'])
        checker = open_at("command", "here", disk / "state", command=command)
        pending = checker.start(sample_of())
        (disk / "state" / "checks").mkdir(parents=True)
        with pytest.raises(OSError, match="No space"):
            (disk / "ballast").write_bytes(bytes(8 << 20))
        with pytest.raises(StorageError, match="No space left on device"):
            checker.poll(pending)
        (disk / "ballast").unlink()
        assert end_of(checker, pending).finding is Finding.INTACT
        checker.cancel(pending)


def test_a_plan_that_can_not_be_read_is_one_sentence(tmp_path: Path) -> None:
    for content, said in ((None, "No such file"), (b'{"kind": 3}', "is damaged")):
        if content is not None:
            (tmp_path / "plan.json").write_bytes(content)
        command = [sys.executable, "-m", "holdfast.checkers.job", str(tmp_path), "0"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 2
        assert said in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    checker = open_at("command", "here", tmp_path / "state", command='["true"]')
    with pytest.raises(StorageError, match=f"can't make the directory {tmp_path}/state"):
        checker.poll(checker.start(sample_of()))


@pytest.mark.parametrize(
    "pending", [b"", b"{}", b'{"id":"../..","began":0,"sample":{}}', b"[" * 100000]
)
def test_a_note_that_is_no_check_of_ours_is_refused(checker: Checker, pending: bytes) -> None:
    for ask in (checker.poll, checker.cancel):
        with pytest.raises(MalformedError, match="the note of a check is damaged"):
            ask(pending)


def test_a_note_that_names_another_folder_is_refused(checker: Checker) -> None:
    note = json.loads(checker.start(sample_of()))
    with pytest.raises(InputError, match="names no check of ours"):
        checker.poll(json.dumps({**note, "id": "../other"}).encode())


@pytest.mark.slow
def test_an_error_in_the_job_is_its_end(folder: Path) -> None:
    report = check(open_at("command", "here", folder, command='["/no/such/program"]'), sample_of())
    assert (report.finding, report.checked) == (Finding.UNKNOWN, 0)
    assert report.reason == "can't run /no/such/program: No such file or directory"
