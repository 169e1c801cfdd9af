"""The front door: what it says of itself, and that an exit code means what it should."""

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.command_line import SCRIPT, Finished, Shell, Workplace, damage

import holdfast
from holdfast.cli.app import root_command
from holdfast.cli.commands import COMMANDS as TABLE
from holdfast.cli.commands import Entry, Group
from holdfast.cli.reference import commands
from holdfast.cli.terminal import report, table

MAX_HELP_SECONDS = 0.6  # of processor time
VERIFY = ("pdp", "verify", "challenge.json", "proof.json", "--key", "owner.key")


def mounted(group: Any, words: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield every command below, and the names of its own commands if it is a group."""
    names = list(getattr(group, "commands", {}))
    yield words, names
    for name in names:
        yield from mounted(group.commands[name], f"{words} {name}".strip())


MOUNTED = dict(mounted(root_command()))
GROUPS = [words for words, names in MOUNTED.items() if names]
COMMANDS = [words for words, names in MOUNTED.items() if not names]


def plain(text: str) -> str:
    """Return the words without the boxes and the line breaks of the help."""
    return " ".join(re.sub(r"[─│╭╮╰╯]", " ", text).split())


def refute(holding: Workplace) -> None:
    """Damage a file and make the proof again: the audit must fail from now on."""
    damage(holding.directory / "one.bin", 100)
    holding.must("prove challenge.json one.bin two.bin --out proof.json")


def test_the_version_is_told(shell: Shell) -> None:
    assert shell.run("--version") == Finished(0, f"holdfast {holdfast.__version__}\n", "")


def test_the_audit_primitive_is_mounted() -> None:
    assert MOUNTED["pdp"] == [
        *("keygen", "tag", "challenge", "prove", "verify", "locate", "forget")
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_no_arguments_show_the_help_but_could_not_run(workplace: Workplace, group: str) -> None:
    finished = workplace.run(*group.split())
    assert finished.code == 2
    said = plain(finished.stdout + finished.stderr)
    assert said.startswith("Usage: ")
    assert all(f" {name} " in said for name in MOUNTED[group])
    assert "holdfast: " not in finished.stderr


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_fine(workplace: Workplace, flag: str) -> None:
    finished = workplace.run(flag)
    assert (finished.code, finished.stderr) == (0, "")
    assert "Usage: " in finished.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_takes_json(workplace: Workplace, command: str) -> None:
    finished = workplace.run(*command.split(), "--help")
    assert (finished.code, finished.stderr) == (0, "")
    assert "--json" in plain(finished.stdout)


@pytest.mark.parametrize("name", MOUNTED["pdp"])
def test_every_command_of_the_audit_primitive_shows_an_example(
    workplace: Workplace, name: str
) -> None:
    said = plain(workplace.must(f"{name} --help").stdout)
    assert re.search(f"Examples?: holdfast pdp {name} ", said)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("nonesuch", "nonesuch"),
        ("pdp nonesuch", "nonesuch"),
        ("--nonesuch", "--nonesuch"),
        ("pdp tag --nonesuch", "--nonesuch"),
        ("pdp keygen", "--out"),
        ("pdp prove --out proof.json", "CHALLENGE"),
        ("pdp keygen --out key --sectors many", "--sectors"),
    ],
)
def test_what_is_not_understood_is_named_in_one_sentence(
    workplace: Workplace, line: str, named: str
) -> None:
    assert named in workplace.run(*line.split()).sentence()
    assert not list(workplace.directory.iterdir())


@pytest.mark.slow
def test_exit_codes_tell_fine_from_a_finding_from_could_not_run(holding: Workplace) -> None:
    shell = Shell(holding.directory)
    fine = shell.run(*VERIFY)
    assert (fine.code, fine.stderr) == (0, "")
    refute(holding)
    finding = shell.run(*VERIFY)
    assert (finding.code, finding.stderr) == (1, "")
    (holding.directory / "owner.key").unlink()
    assert "owner.key" in shell.run(*VERIFY).sentence()


def into_a_closed_pipe(shell: Shell, *arguments: str) -> Finished:
    """Run a command whose reader has left before its first word, as `head -0` does."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return shell.run(*arguments, stdout=writing)
    finally:
        os.close(writing)


@pytest.mark.slow
@pytest.mark.parametrize("line", ["--version", "pdp tag --help"])
def test_a_reader_that_leaves_is_no_error(shell: Shell, line: str) -> None:
    assert into_a_closed_pipe(shell, *line.split()) == Finished(0, "", "")


def test_a_reader_that_leaves_does_not_turn_a_pass_into_a_failure(holding: Workplace) -> None:
    assert into_a_closed_pipe(Shell(holding.directory), *VERIFY) == Finished(0, "", "")


@pytest.mark.slow
def test_a_reader_that_leaves_does_not_turn_a_failure_into_a_pass(holding: Workplace) -> None:
    refute(holding)
    assert into_a_closed_pipe(Shell(holding.directory), *VERIFY) == Finished(1, "", "")


def test_a_full_disk_under_the_output_is_told_in_one_sentence(shell: Shell) -> None:
    assert "No space left" in shell.script("$holdfast --version >/dev/full").sentence()


@pytest.mark.slow
def test_a_closed_output_leads_to_no_traceback(holding: Workplace) -> None:
    finished = Shell(holding.directory).script(f"$holdfast {' '.join(VERIFY)} >&-")
    assert finished == Finished(0, "", "")


@pytest.mark.slow
def test_only_the_command_that_is_typed_is_imported() -> None:
    code = (
        "import sys; from holdfast.cli.app import run\n"
        "ours = lambda: {name for name in sys.modules if name.startswith('holdfast.')}\n"
        "none = ours()\n"
        "assert run(['--help']) == run(['policy', '--help']) == 0\n"
        "assert run(['policy']) == 2\n"
        "assert ours() == none and 'numpy' not in sys.modules\n"
        "assert run(['status', '--help']) == 0\n"
        "assert 'holdfast.cli.status' in ours() and 'holdfast.cli.policy' not in ours()\n"
        "assert 'fastapi' not in sys.modules"  # a quarter of a second
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def entries(table: dict[str, Any], *words: str) -> Iterator[tuple[tuple[str, ...], Entry]]:
    for name, entry in table.items():
        if isinstance(entry, Group):
            yield from entries(entry.commands, name)
        else:
            yield (*words, name), entry


def test_the_line_in_the_help_of_a_group_is_the_first_of_the_command() -> None:
    first = {words: command.help.split("\n")[0] for words, command in commands()}
    assert {words: entry.help for words, entry in entries(TABLE)} == first


@pytest.mark.parametrize(
    ("line", "named"), [("serve", "[control]"), ("policy promote", "[control.promotion]")]
)
def test_names_of_tables_are_shown_in_the_help(workplace: Workplace, line: str, named: str) -> None:
    assert named in plain(workplace.run(*line.split(), "--help").stdout)


def test_the_help_takes_little_time() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([SCRIPT, "--help"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < MAX_HELP_SECONDS


def test_a_fault_of_our_own_is_one_sentence_and_exit_70(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("with a secret in it")

    monkeypatch.setattr("holdfast.cli.config.show", fail)
    finished = workplace.run("config", "show")
    assert (finished.code, finished.stdout) == (70, "")
    (sentence,) = finished.stderr.splitlines()
    assert sentence.startswith(
        "holdfast: this is a fault of Holdfast (ZeroDivisionError at test_app.py:"
    )
    assert sentence.endswith("run it again with HOLDFAST_TRACEBACK=1 and report what it prints")
    assert "secret" not in sentence
    monkeypatch.setenv("HOLDFAST_TRACEBACK", "1")
    traced = workplace.run("config", "show")
    assert traced.code == 70
    assert traced.stderr.startswith("Traceback (most recent call last):")


def test_names_can_not_command_the_terminal(
    holding: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name may have line breaks and escape sequences: they are printed, and not obeyed."""
    name = "two\nlines\x1b[2J\r.bin"
    (holding.directory / name).write_bytes(b"content")
    said = holding.must("tag --key owner.key", name).stdout
    assert said.count("\n") == 1
    assert said.startswith(r"two\nlines\x1b[2J\r.bin: 7 bytes")
    report({}, [name, table(("name",), [[name]])], as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        r"two\nlines\x1b[2J\r.bin",
        "name",
        "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * len(r"two\nlines\x1b[2J\r.bin"),
        r"two\nlines\x1b[2J\r.bin",
    ]
