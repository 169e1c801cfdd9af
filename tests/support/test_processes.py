"""What a test starts does not outlive it, and Ctrl-C reaches it however the tests were started."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.processes import running

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
# A program and its own child, both of which outlast every test, and neither ends by SIGTERM.
FAMILY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
if os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(1000)
"""
FAILURE = f"""
import subprocess, sys
from pathlib import Path
from tests.support import processes

processes.GRACE_SECONDS = 0.1

def test_that_fails_while_its_processes_live():
    with processes.running([sys.executable, "-c", {FAMILY!r}], stdout=subprocess.PIPE) as family:
        Path("pids").write_text(family.stdout.readline() + family.stdout.readline())
        raise AssertionError("on purpose")

def test_that_comes_after():
    import gc
    gc.collect()
"""
KILLED = f"""
import subprocess, sys, time
from pathlib import Path
from tests.support import processes

def test_that_is_killed(tmp_path):
    family = processes.running([sys.executable, "-c", {FAMILY!r}], stdout=subprocess.PIPE)
    with family as process:
        processes.end_with_tests(folder=tmp_path)
        command = [sys.executable, "-c", "import time; time.sleep(1000)", str(tmp_path)]
        other = subprocess.Popen(command)  # it ends neither by its context nor by its group
        (tmp_path / "file").touch()
        lines = process.stdout.readline() + process.stdout.readline()
        Path("new").write_text(f"{{lines}}{{other.pid}}\\n{{tmp_path}}")
        Path("new").rename("pids")
        time.sleep(1000)
"""
INTERRUPTED = """
import signal, subprocess, sys

CHILD = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"

def test_children_can_be_interrupted():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, check=True)
    assert done.stdout == b"True\\n"
"""


def pytest_of(folder: Path, test: str, *options: str) -> list[str]:
    """Write a test; return the command that runs it by the rules of all tests."""
    (folder / "test_written.py").write_text(test)
    rules = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
    return [sys.executable, "-m", "pytest", *rules, *options, str(folder / "test_written.py")]


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lives(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_a_test_that_fails_leaves_no_process_to_the_next(tmp_path: Path) -> None:
    command = pytest_of(tmp_path, FAILURE)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "on purpose" in done.stdout
    family = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(family) == 2
    assert not any(map(lives, family))


@pytest.mark.slow
def test_tests_that_are_killed_leave_no_process_and_no_server(tmp_path: Path) -> None:
    """Before: a killed pytest left its PostgreSQL servers, nodes and chains running for ever."""
    with running(pytest_of(tmp_path, KILLED), cwd=tmp_path) as tests:
        wait_until((tmp_path / "pids").exists)
        *processes, folder = (tmp_path / "pids").read_text().split()
        assert all(lives(int(process)) for process in processes)
        tests.kill()
        tests.wait()
        wait_until(lambda: not any(lives(int(process)) for process in processes))
        wait_until(lambda: not Path(folder).exists())


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "by a worker"])
def test_children_can_be_interrupted_where_the_caller_ignores_it(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Before: under `nohup` and in background jobs ten tests of Ctrl-C failed or hung."""
    command = pytest_of(tmp_path, INTERRUPTED, *options)
    under_nohup = ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command]
    done = subprocess.run(under_nohup, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_test_starts_processes_and_skips_through_these_helpers() -> None:
    shortcuts = re.compile(r"\bPopen\(|\bcreate_subprocess_|\bpytest\.skip\(|\bimportorskip\(")
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if path.parent.name != "support" and shortcuts.search(path.read_text())
    ]
    assert found == []
