"""Programs of others are run without a shell, in bounded time and memory, and leave no secret."""

import re
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.checks import is_alive, wait_for
from tests.support.processes import run_python

from holdfast.checkers.interface import MAX_WORDS
from holdfast.checkers.sessions import MARK
from holdfast.checkers.tool_process import (
    Ended,
    Excerpt,
    Requirement,
    find_tool,
    hide_secrets,
    is_unreadable,
    run_tool,
    tool_environment,
)
from holdfast.errors import InputError, StorageError, UnreachableError

NEEDED = Requirement("sometool", "sometool-package", (1, 5), "version")


def script(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def run(*command: str, seconds: float = 60.0) -> Ended:
    return run_tool(command, tool_environment(), deadline=time.monotonic() + seconds)


def test_a_program_that_is_not_installed_is_named_with_its_package() -> None:
    with pytest.raises(InputError, match=r"no program sometool: install .*sometool-package"):
        find_tool(NEEDED)


def test_a_program_that_is_too_old_is_refused_with_its_cure(tmp_path: Path) -> None:
    old = script(tmp_path / "old", "print('sometool 1.4.9')")
    with pytest.raises(InputError, match=r"too old: 1.5 or later.*sometool-package"):
        find_tool(NEEDED, old)
    new = script(tmp_path / "new", "print('sometool v1.10.2-DEV compiled with go1.19')")
    tool = find_tool(NEEDED, new)
    assert (str(tool), tool.version, tool.path) == ("sometool 1.10.2", (1, 10, 2), new)


@pytest.mark.parametrize("text", ["print('who knows')", "print('1.9.9'); exit(3)"])
def test_a_program_that_does_not_say_its_version_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="does not say its version"):
        find_tool(NEEDED, script(tmp_path / "other", text))


def test_a_program_that_can_not_be_started_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    with pytest.raises(StorageError, match="can't run"):
        run(str(tmp_path / "text"))


def test_there_is_no_shell_and_nothing_to_read() -> None:
    program = "import sys; print(sys.argv[1], repr(sys.stdin.read()))"
    ended = run(sys.executable, "-c", program, "$(id); `id` > x & 'y'")
    assert ended.words.text() == "$(id); `id` > x & 'y' ''"


def test_the_environment_has_no_surprises(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = {"HOLDFAST_PASSPHRASE": "secret", "PYTHONPATH": "/x", "RESTIC_PASSWORD": "other"}
    kept = {"RESTIC_KEPT": "kept", "AWS_SECRET_ACCESS_KEY": "theirs", MARK: "job"}
    variables = {**dropped, **kept, "LC_ALL": "de_DE.UTF-8"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    environment = tool_environment("RESTIC_", ["RESTIC_KEPT"], RESTIC_PASSWORD="given")
    assert {name: environment.get(name) for name in variables} == {
        "HOLDFAST_PASSPHRASE": None,
        "PYTHONPATH": None,
        "RESTIC_PASSWORD": "given",
        **kept,
        "LC_ALL": "C.UTF-8",
    }


def test_lines_of_both_streams_are_handed_over_while_it_runs() -> None:
    program = "import sys, time; print('one'); print('two', file=sys.stderr, flush=True); input()"
    lines: list[str] = []
    command = [sys.executable, "-u", "-c", program.replace("input()", "time.sleep(1000)")]

    def take(line: str) -> bool:
        lines.append(line)
        return len(lines) == 2

    ended = run_tool(command, tool_environment(), deadline=time.monotonic() + 60, on_line=take)
    assert sorted(lines) == ["one", "two"]
    assert (ended.code, ended.is_stopped, ended.is_late) == (-signal.SIGTERM, True, False)


def test_only_lines_that_match_are_handed_over_also_the_last_one() -> None:
    program = "print('a1\\nb2\\na3' + 'x' * 300_000 + '\\nb4\\na5', end='')"
    lines: list[str] = []

    def take(line: str) -> bool:
        lines.append(line)
        return False

    run_tool(
        [sys.executable, "-c", program],
        tool_environment(),
        deadline=time.monotonic() + 60,
        on_line=take,
        lines=re.compile(rb"^a[^\n]*$", re.MULTILINE),
    )
    assert [line[:2] for line in lines] == ["a1", "a3", "a5"]


@pytest.mark.slow
def test_a_child_that_never_ends_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    program = f"""
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    pathlib.Path({str(tmp_path)!r}, "new").write_text(f"{{os.getpid()}} {{child}}")
    os.rename({str(tmp_path / "new")!r}, {str(tmp_path / "processes")!r})
time.sleep(1000)
"""
    ended = run(sys.executable, "-c", program, seconds=2)
    assert (ended.code, ended.is_late) == (-signal.SIGKILL, True)
    processes = [int(process) for process in (tmp_path / "processes").read_text().split()]
    wait_for(lambda: not any(map(is_alive, processes)))


@pytest.mark.slow
def test_output_that_a_process_outside_of_the_group_holds_open_is_not_waited_for() -> None:
    program = """
import os, time
if not os.fork():
    os.setsid()
    time.sleep(20)
    os._exit(0)
print("done")
"""
    began = time.monotonic()
    ended = run(sys.executable, "-c", program)
    assert (ended.code, ended.words.text()) == (0, "done")
    assert time.monotonic() - began < 15


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("end", ["\\\\n", " "])
def test_a_gigabyte_of_output_takes_little_memory(end: str) -> None:
    words = run_python(
        f"""
import resource, sys, time
from holdfast.checkers.tool_process import run_tool, tool_environment
from holdfast.checkers.restic_words import LINES, CheckWords
program = '''
import sys
chunk = ("pack of cards, error for tree, nothing that makes sense{end}" * 1000).encode()
sys.stdout.buffer.write(b"the beginning\\\\n")
left = 1_000_000_000
while left > 0:
    left -= sys.stdout.buffer.write(chunk)
sys.stdout.buffer.write(b"\\\\nthe end\\\\n")
'''
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
words = CheckWords()
ended = run_tool(
    [sys.executable, "-c", program],
    tool_environment(),
    deadline=time.monotonic() + 280,
    on_line=lambda line: bool(words.take(line)),
    lines=LINES,
    max_lines=100_000,
)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
text = ended.words.text()
print(ended.code, ended.words.total > 1_000_000_000, text[:13], text[-7:], grown < 50_000)
"""
    )
    assert words == "0 True the beginning the end True\n"


@given(st.lists(st.binary(max_size=9000), max_size=8))
def test_words_are_bounded_and_printable(chunks: list[bytes]) -> None:
    excerpt = Excerpt()
    for chunk in chunks:
        excerpt.add(chunk)
    text = excerpt.text()
    assert excerpt.total == sum(map(len, chunks))
    assert len(text) <= MAX_WORDS
    assert all(mark.isprintable() or mark == "\n" for mark in text)


def test_short_words_are_kept_as_they_are() -> None:
    excerpt = Excerpt()
    excerpt.add("größer\n".encode())
    excerpt.add(b"\x1b[2Kend\x00\n")
    assert excerpt.text() == "größer\n\\x1b[2Kend\\x00"
    assert excerpt.last_line() == "\\x1b[2Kend\\x00"


def test_secrets_are_hidden() -> None:
    text = "open rest:http://me:hunter2@host/ with correct horse"
    assert hide_secrets(text, ["correct horse", ""]) == "open rest:http://me:***@host/ with ***"


def test_a_file_that_the_disk_can_not_read_is_told_from_one_that_is_gone(tmp_path: Path) -> None:
    control, unreadable = tmp_path / "control", Path("/proc/self/mem")
    control.write_bytes(b"fine")
    assert is_unreadable(unreadable, control)
    assert not is_unreadable(control, control)
    with pytest.raises(UnreachableError):
        is_unreadable(tmp_path / "gone", control)
    with pytest.raises(UnreachableError):
        is_unreadable(unreadable, tmp_path / "gone")
