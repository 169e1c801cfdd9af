"""What an interrupted command leaves behind: no half-written output and no process."""

import os
import pty
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from types import FrameType
from typing import Any

import pytest
from tests.support.command_line import Finished, Shell, Workplace, end, new_key

from holdfast import atomic
from holdfast.pdp import Inventory

LARGE = 600 << 20  # sparse, so that it is there at once and takes no room; its tags are 40 MB
HALF_WAY = 5_000_000
PATIENCE = 100.0
INTERRUPTED = Finished(130, "", "holdfast: interrupted\n")

Signal = Callable[[Popen[str]], None]


def to_all(number: signal.Signals) -> Signal:
    """Send it to the command and its workers, as a terminal does."""
    return lambda process: os.killpg(process.pid, number)


def to_the_command(number: signal.Signals) -> Signal:
    return lambda process: os.kill(process.pid, number)


CTRL_C, TERMINATE = to_all(signal.SIGINT), to_the_command(signal.SIGTERM)
TERMINATE_ALL, KILL = to_all(signal.SIGTERM), to_the_command(signal.SIGKILL)


@pytest.fixture
def work(workplace: Workplace) -> Iterator[Workplace]:
    """Return a holding of one small file, beside which lies a large one yet to be tagged."""
    new_key(workplace.directory, sectors=16)
    (workplace.directory / "small").write_bytes(b"something small")
    workplace.must("tag small --key owner.key")
    large = workplace.directory / "large"
    large.touch()
    os.truncate(large, LARGE)
    yield workplace
    large.unlink()


@contextmanager
def tagging(work: Workplace, *options: str, file: str = "large") -> Iterator[Popen[str]]:
    """Start to tag a file, and end what is left of it when the test has seen enough."""
    command = ("pdp", "tag", file, "--key", "owner.key", *options)
    with Shell(work.directory).start(*command) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def files(work: Workplace) -> dict[str, bytes]:
    """Return all files but the large one."""
    found = (path for path in work.directory.iterdir() if path.name != "large")
    return {path.name: path.read_bytes() for path in found}


def drafts(work: Workplace, file: str = "large") -> list[Path]:
    return list(work.directory.glob(f".{file}.tags.*.part"))


def wait_until(happened: Callable[[], Any], process: Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert process.poll() is None, end(process)
        assert time.monotonic() < deadline
        time.sleep(0.005)


def wait_until_half_way(work: Workplace, process: Popen[str]) -> None:
    wait_until(lambda: any(path.stat().st_size > HALF_WAY for path in drafts(work)), process)


def session_of(process: Popen[str], having: str = "") -> list[int]:
    """Return the living processes of the command's session whose command line has these words."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            words = (entry / "cmdline").read_text(errors="replace")
        except OSError:  # it has just ended
            continue
        if state[0] != "Z" and int(state[3]) == process.pid and having in words:
            found.append(int(entry.name))
    return found


def workers_of(process: Popen[str]) -> list[int]:
    return session_of(process, having="spawn_main")


def assert_no_process_survives(process: Popen[str]) -> None:
    deadline = time.monotonic() + 5
    while session_of(process):
        assert time.monotonic() < deadline, "a worker outlived its command by five seconds"
        time.sleep(0.02)


def assert_a_later_tag_succeeds(work: Workplace) -> None:
    os.truncate(work.directory / "large", 3_000_000)
    tagged = work.must("tag large --key owner.key --json").data
    assert [file["version"] for file in tagged["files"]] == [1], "no version was spent"
    work.must("challenge --samples 500 --out challenge.json")
    work.must("prove challenge.json small large --out proof.json")
    work.must("verify challenge.json proof.json --key owner.key")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interrupt", "processes"),
    [
        pytest.param(CTRL_C, "1", id="Ctrl-C"),
        pytest.param(CTRL_C, "2", id="Ctrl-C with workers"),
        pytest.param(TERMINATE, "1", id="SIGTERM"),
        pytest.param(TERMINATE, "2", id="SIGTERM with workers"),
        pytest.param(TERMINATE_ALL, "2", id="SIGTERM to all"),
    ],
)
def test_an_interrupted_tag_leaves_nothing_behind(
    work: Workplace, interrupt: Signal, processes: str
) -> None:
    before = files(work)
    with tagging(work, "--processes", processes) as process:
        wait_until_half_way(work, process)
        assert bool(workers_of(process)) == (processes != "1")
        interrupt(process)
        finished = end(process)
        assert files(work) == before
        assert_no_process_survives(process)
    assert finished == INTERRUPTED
    assert_a_later_tag_succeeds(work)


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_killed_tag_leaves_no_output_and_no_worker(work: Workplace, processes: str) -> None:
    before = files(work)
    with tagging(work, "--processes", processes) as process:
        wait_until_half_way(work, process)
        assert bool(workers_of(process)) == (processes != "1")
        KILL(process)
        assert_no_process_survives(process)
        assert end(process).code == -signal.SIGKILL
    for draft in drafts(work):  # nobody was left to remove it
        draft.unlink()
    assert files(work) == before
    assert_a_later_tag_succeeds(work)


@pytest.mark.slow
@pytest.mark.parametrize("interrupt", [CTRL_C, TERMINATE], ids=["Ctrl-C", "SIGTERM"])
def test_workers_that_are_just_starting_leave_in_silence(
    work: Workplace, interrupt: Signal
) -> None:
    before = files(work)
    with tagging(work, "--processes", "2") as process:
        wait_until(lambda: workers_of(process), process)
        time.sleep(0.15)  # long enough for Python to run, not for it to have imported NumPy
        interrupt(process)
        finished = end(process)
        assert files(work) == before
        assert_no_process_survives(process)
    assert finished == INTERRUPTED


def test_a_command_that_is_just_starting_leaves_without_a_traceback(shell: Shell) -> None:
    with shell.start("pdp", "keygen", "--out", "owner.key") as process:
        libraries = Path(f"/proc/{process.pid}/maps")
        wait_until(lambda: "numpy" in libraries.read_text(), process)
        CTRL_C(process)
        finished = end(process)
    assert finished.code in {130, -signal.SIGINT}
    assert finished.stderr in {"", INTERRUPTED.stderr}
    assert not list(shell.directory.iterdir())


def while_at_work(_process: Popen[str]) -> None:
    pass


def while_handing_over(process: Popen[str]) -> None:
    """Stop the command while a worker is in the middle of handing its tags over a pipe."""
    for _ in range(5):
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        waiting = [Path(f"/proc/{worker}/wchan").read_text() for worker in workers_of(process)]
        if any("pipe_write" in place for place in waiting):
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [while_at_work, while_handing_over])
def test_a_worker_that_is_killed_stops_the_command_in_one_sentence(
    work: Workplace, moment: Callable[[Popen[str]], None]
) -> None:
    before = files(work)
    with tagging(work, "--processes", "2") as process:
        wait_until_half_way(work, process)
        moment(process)
        os.kill(workers_of(process)[0], signal.SIGKILL)
        process.send_signal(signal.SIGCONT)
        assert "process was killed" in end(process).sentence()
        assert_no_process_survives(process)
    assert files(work) == before


@pytest.mark.slow
def test_a_worker_that_ends_while_handing_over_does_not_keep_the_command(work: Workplace) -> None:
    before = files(work)
    with tagging(work, "--processes", "2") as process:
        wait_until_half_way(work, process)
        while_handing_over(process)
        TERMINATE_ALL(process)
        process.send_signal(signal.SIGCONT)
        assert end(process) == INTERRUPTED
        assert_no_process_survives(process)
    assert files(work) == before


@pytest.mark.slow
def test_a_disk_that_fills_up_stops_the_command_in_one_sentence(work: Workplace) -> None:
    before = files(work)
    # A limit of the shell stands in for the end of the disk: 1000 blocks, at most a megabyte.
    command = "ulimit -f 1000; $holdfast pdp tag large --key owner.key --processes 1"
    sentence = Shell(work.directory).script(command).sentence()
    assert sentence.startswith("can't write large.tags: ")
    assert files(work) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "reason"), [(1 << 20, "ends before"), (LARGE // 6 + 1, "changed while")]
)
def test_a_file_that_changes_meanwhile_is_not_tagged(
    work: Workplace, size: int, reason: str
) -> None:
    os.truncate(work.directory / "large", LARGE // 6)
    before = files(work)
    with tagging(work, "--processes", "1") as process:
        wait_until(lambda: drafts(work), process)
        os.truncate(work.directory / "large", size)
        assert reason in end(process).sentence()
    assert files(work) == before


def waits_for_a_lock(process: Popen[str]) -> bool:
    lines = Path("/proc/locks").read_text().splitlines()
    return any(" -> " in line and f" {process.pid} " in line for line in lines)


@pytest.mark.slow
def test_two_tags_at_once_both_enter_the_inventory(work: Workplace) -> None:
    (work.directory / "other").write_bytes(b"another file")
    os.truncate(work.directory / "large", LARGE // 6)
    with tagging(work, "--processes", "1") as first:
        wait_until(lambda: drafts(work), first)
        first.send_signal(signal.SIGSTOP)  # in the middle, until the other has had every chance
        with tagging(work, file="other") as second:
            wait_until(lambda: waits_for_a_lock(second), second)
            first.send_signal(signal.SIGCONT)
            assert [end(first).code, end(second).code] == [0, 0]
    inventory = Inventory.decode((work.directory / "holding.inventory").read_bytes())
    assert len(inventory.files) == 3
    assert len((work.directory / "owner.key.journal").read_text().splitlines()) == 3
    work.must("challenge --samples 500 --out challenge.json")
    work.must("prove challenge.json small large other --out proof.json")
    work.must("verify challenge.json proof.json --key owner.key")


@pytest.mark.slow
def test_a_tag_that_waits_for_another_can_be_interrupted(work: Workplace) -> None:
    (work.directory / "other").write_bytes(b"another file")
    before = files(work)
    with tagging(work, "--processes", "1") as first:
        wait_until(lambda: drafts(work), first)
        first.send_signal(signal.SIGSTOP)
        with tagging(work, file="other") as second:
            wait_until(lambda: waits_for_a_lock(second), second)
            CTRL_C(second)
            assert end(second) == INTERRUPTED
    for draft in drafts(work):
        draft.unlink()
    assert files(work) == before


def test_an_interrupted_prompt_makes_no_key(shell: Shell) -> None:
    person, command = pty.openpty()
    keygen = ("pdp", "keygen", "--out", "key")
    try:
        with shell.start(*keygen, stdin=command, passphrase=None) as process:
            assert process.stderr is not None
            assert process.stderr.read(len("Passphrase: ")) == "Passphrase: "
            CTRL_C(process)
            finished = end(process)
    finally:
        os.close(person)
        os.close(command)
    assert finished.code == 130
    assert "Traceback" not in finished.stderr
    assert not list(shell.directory.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        "tag one.bin --key owner.key",
        "challenge --samples 5 --out challenge.json",
        "prove challenge.json one.bin two.bin --out new.json",
    ],
)
def test_an_interrupt_as_soon_as_the_draft_exists_removes_it(
    holding: Workplace, command: str
) -> None:
    before = files(holding)
    previous = sys.gettrace()

    def interrupt(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != atomic.__file__:
            return None
        if event == "line" and list(holding.directory.glob(".*.part")):
            sys.settrace(previous)
            raise KeyboardInterrupt
        return interrupt

    sys.settrace(interrupt)
    try:
        finished = holding.pdp(command)
    finally:
        sys.settrace(previous)
    assert finished.code == 130
    assert files(holding) == before
