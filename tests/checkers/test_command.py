"""A command of the operator's own: its exit code and its line of JSON, and nothing in doubt."""

import json
import re
import resource
import sys
from pathlib import Path

import pytest
from tests.support.checks import is_alive, open_at, sample_of, wait_for

from holdfast.checkers.command import CommandChecker
from holdfast.checkers.interface import Defect, Finding, Report, Sample
from holdfast.errors import InputError

INTACT = {"checked": 12, "of": 240, "damaged": [], "bytes": 5000}


def open_program(folder: Path, program: str, **options: str) -> CommandChecker:
    """Return a checker whose command runs a program in Python."""
    command = json.dumps([sys.executable, "-c", program])
    checker = open_at("command", "tape:/library", folder, command=command, **options)
    assert isinstance(checker, CommandChecker)
    return checker


def run(folder: Path, program: str, sample: Sample | None = None, **options: str) -> Report:
    folder.mkdir(exist_ok=True)
    checker = open_program(folder, program, **options)
    return checker.run(sample or sample_of(units=12), lambda _done, _total: None)


def ending(code: int, answer: object) -> str:
    return f"import sys; print({json.dumps(answer)!r}); sys.exit({code})"


def test_exit_0_is_intact_with_what_the_line_says(folder: Path) -> None:
    report = run(folder, ending(0, INTACT))
    assert (report.finding, report.reason) == (Finding.INTACT, "")
    assert (report.checked, report.units, report.read_bytes) == (12, 240, 5000)
    assert report.began <= report.ended
    assert report.tool == Path(sys.executable).name


def test_exit_1_is_damaged_if_it_names_a_unit(folder: Path) -> None:
    report = run(folder, ending(1, {**INTACT, "damaged": ["tape 7", "tape 9", "tape 7"]}))
    assert (report.finding, report.reason) == (Finding.DAMAGED, "2 units are damaged")
    named = [(unit.name, unit.defect, unit.group) for unit in report.damaged]
    assert named == [
        ("tape 7", Defect.CHANGED, "tape 7"),
        ("tape 9", Defect.CHANGED, "tape 9"),
    ]


@pytest.mark.parametrize(
    ("program", "finding", "reason"),
    [
        (ending(1, INTACT), "unknown", "ended with 1, .* names no damaged unit"),
        (ending(1, {**INTACT, "damaged": 3}), "unknown", "ended with 1, .* names no damaged unit"),
        (ending(0, {**INTACT, "damaged": ["a"]}), "unknown", "with 0, .* counts 1 damaged unit"),
        (ending(0, {**INTACT, "damaged": 2}), "unknown", "with 0, .* counts 2 damaged units"),
        (ending(0, {**INTACT, "checked": 241}), "unknown", "checked 241 of 240 units"),
        (
            ending(1, {"checked": 1, "of": 9, "damaged": ["a", "b"]}),
            "unknown",
            "and counts 2 damag",
        ),
        (ending(1, {"checked": 0, "of": 0, "damaged": ["a"]}), "unknown", "0 units and counts 1"),
        (ending(0, {"of": 240}), "unknown", "no count in the field 'checked'"),
        (ending(0, {**INTACT, "of": -1}), "unknown", "no count in the field 'of'"),
        (ending(0, {**INTACT, "checked": True}), "unknown", "no count in the field 'checked'"),
        (ending(0, {**INTACT, "bytes": "many"}), "unknown", "no count in the field 'bytes'"),
        (ending(0, {**INTACT, "damaged": [3]}), "unknown", "no count in the field 'damaged'"),
        (ending(0, [1, 2]), "unknown", "printed no line of JSON"),
        ("print('all is well')", "unknown", "printed no line of JSON"),
        ("print('{all is well')", "unknown", "the last line of the command is no JSON"),
        ("print('{' * 100000)", "unknown", "the last line of the command is no JSON"),
        ("", "unknown", "printed no line of JSON"),
        (ending(75, INTACT), "unreachable", "the storage is away or locked"),
        (ending(2, INTACT), "unknown", "could not run: its exit code is 2"),
        ("import os; os.kill(os.getpid(), 9)", "unknown", "was killed by signal 9"),
    ],
)
def test_what_is_in_doubt_is_neither_intact_nor_damaged(
    folder: Path, program: str, finding: str, reason: str
) -> None:
    report = run(folder, program)
    assert report.finding == finding
    assert re.search(reason, report.reason)
    assert (report.checked, report.damaged) == (0, ())


def test_exit_0_with_nothing_read_says_so(folder: Path) -> None:
    report = run(folder, ending(0, {"checked": 0, "of": 240}))
    assert (report.finding, report.checked, report.units) == (Finding.INTACT, 0, 240)


def test_the_last_line_of_json_counts_and_other_output_becomes_words(folder: Path) -> None:
    program = f"""
import sys
print("reading", file=sys.stderr)
print('{{"progress": 1}}')
print({json.dumps(INTACT)!r})
print("done")
"""
    report = run(folder, program)
    assert report.checked == 12
    assert report.words.splitlines()[0] == "reading"
    assert report.words.splitlines()[-1] == "done"


def test_the_environment_says_what_to_check(folder: Path) -> None:
    program = """
import json, os
print(json.dumps({name: value for name, value in os.environ.items() if "HOLDFAST" in name}))
print('{"checked": 12, "of": 240}')
"""
    report = run(folder, program, sample_of(units=12), units="240")
    said = json.loads(report.words.splitlines()[0])
    assert said["HOLDFAST_ADDRESS"] == "tape:/library"
    assert said["HOLDFAST_SEED"] == b"seed".hex()
    assert said["HOLDFAST_SAMPLE"] == "0.05"
    assert said["HOLDFAST_UNITS"] == "12"
    assert "HOLDFAST_GROUPS_FILE" not in said


def test_groups_that_are_known_are_handed_over_in_a_file(folder: Path, tmp_path: Path) -> None:
    names = tmp_path / "tapes"
    names.write_text("tape 1\ntape 2\n\ntape 3\n")
    program = """
import json, os
names = open(os.environ["HOLDFAST_GROUPS_FILE"]).read().split("\\n")[:-1]
print(json.dumps({"checked": len(names), "of": 3, "damaged": names[:1]}))
raise SystemExit(1)
"""
    extent = open_program(folder, program, groups=str(names), unit="tape").extent()
    assert (extent.unit, extent.units) == ("tape", 3)
    assert [group.name for group in extent.groups] == ["tape 1", "tape 2", "tape 3"]
    report = run(folder, program, sample_of("tape 3", "tape 1"), groups=str(names))
    assert [unit.name for unit in report.damaged] == ["tape 3"]
    assert report.verified == ("tape 1",)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\n \n", "names no group"), (b"a\nb\na\n", "a group twice"), (None, "can't read")],
)
def test_a_file_of_groups_that_can_not_be_used_is_refused(
    folder: Path, tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "groups").write_bytes(content)
    with pytest.raises(InputError, match=said):
        open_program(folder, "", groups=str(tmp_path / "groups")).extent()


def test_how_many_units_there_are_is_remembered(folder: Path) -> None:
    assert open_program(folder, "").extent().units == 100, "until the command has said it"
    run(folder, ending(0, INTACT))
    extent = open_program(folder, "").extent()
    assert (extent.units, extent.bytes) == (240, 100_000)
    run(folder, ending(75, INTACT))
    assert open_program(folder, "").extent().units == 240


@pytest.mark.slow
def test_a_gigabyte_of_output_is_not_kept_in_memory(folder: Path) -> None:
    program = f"""
import os, sys
for handle in (1, 2):
    for _ in range(512):
        os.write(handle, b"x" * ((1 << 20) - 1) + b"\\n")
print({json.dumps(INTACT)!r})
"""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = run(folder, program)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert report.checked == 12
    assert report.words.startswith("(the end of 1 GiB)")
    assert grown < 64 << 10, "kilobytes"


def test_what_the_command_left_running_ends_with_it(folder: Path) -> None:
    program = f"""
import os, sys, time
child = os.fork()
if not child:
    time.sleep(1000)  # and holds the pipe of its output open
print(child, file=sys.stderr)
print({json.dumps(INTACT)!r})
"""
    report = run(folder, program)
    assert report.checked == 12
    wait_for(lambda: not is_alive(int(report.words.splitlines()[0])))


@pytest.mark.parametrize(
    "command", ["", "ls -l", "[]", '["ls", 3]', '"ls"', "[" * 9999, '["\\u0000"]']
)
def test_a_command_that_is_no_list_of_arguments_is_refused(folder: Path, command: str) -> None:
    with pytest.raises(InputError, match="must be a JSON list of its arguments, such as"):
        open_at("command", "here", folder, command=command)


def test_a_command_that_is_not_installed_is_refused(folder: Path) -> None:
    checker = open_at("command", "here", folder, command='["no-such-program"]')
    with pytest.raises(InputError, match="there is no program no-such-program: install it"):
        checker.extent()


@pytest.mark.parametrize("units", ["0", "-1", "many", "٣", str(1 << 60)])
def test_a_number_of_units_that_is_none_is_refused(folder: Path, units: str) -> None:
    with pytest.raises(InputError, match="must be a whole number above 0"):
        open_at("command", "here", folder, command='["ls"]', units=units)


def test_arguments_reach_no_shell(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    command = ["/bin/echo", json.dumps(INTACT), ";", f"touch {tmp_path}/harm", "$(true)"]
    checker = open_at("command", "here", folder, command=json.dumps(command))
    assert isinstance(checker, CommandChecker)
    report = checker.run(sample_of(), lambda _done, _total: None)
    assert "$(true)" in report.words
    assert not (tmp_path / "harm").exists()


def test_damage_of_many_units_is_damage(folder: Path) -> None:
    program = """
import json
names = [f"{'a' * 90}/{number}" for number in range(20_000)]
print(json.dumps({"checked": 20_000, "of": 20_000, "damaged": names}))
raise SystemExit(1)
"""
    report = run(folder, program)
    assert (report.finding, len(report.damaged)) == (Finding.DAMAGED, 20_000)


def test_names_that_are_no_unicode_are_handed_over_again(folder: Path) -> None:
    program = r"""
import os, sys
names = open(os.environ["HOLDFAST_GROUPS_FILE"], "rb").read().split(b"\n")[:-1]
assert names == [b"a\xed\xa0\x80", b"b\xff"], names
print(r'{"checked": 2, "of": 2, "damaged": ["a\ud800", "b\udcff", "\u2028"][:0]}'[:0], end="")
print(r'{"checked": 2, "of": 2, "damaged": ["a\ud800", "b\udcff"]}')
sys.exit(1)
"""
    report = run(folder, program, sample_of("a\ud800", "b\udcff"))
    assert [unit.group for unit in report.damaged] == ["a\ud800", "b\udcff"], report.words


def test_passwords_in_addresses_are_no_words_of_a_report(folder: Path) -> None:
    program = f"""
import sys
print("can't open http:" + "//user:secret@host/", file=sys.stderr)
print("read s3:" + "//user:secret@bucket")
print({json.dumps(INTACT)!r})
"""
    report = run(folder, program)
    assert "http://user:***@host/" in report.words
    assert "secret" not in report.words


@pytest.mark.parametrize(
    "arguments",
    [
        ["--password", "hunter2"],
        ["--db-password=hunter2"],
        ["-secret", "hunter2"],
        ["PASSWORD=hunter2"],
        ["--api-key", "hunter2"],
        ["https://user:hunter2@host/"],
    ],
)
def test_a_secret_among_the_arguments_is_refused(folder: Path, arguments: list[str]) -> None:
    with pytest.raises(InputError, match="file") as refused:
        open_at("command", "here", folder, command=json.dumps(["check", *arguments]))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "arguments", [["--password-file", "/etc/pw"], ["--password", "--quick"], ["--token"], ["-p"]]
)
def test_arguments_that_only_name_a_secret_are_taken(folder: Path, arguments: list[str]) -> None:
    open_at("command", "here", folder, command=json.dumps(["check", *arguments]))


def test_options_that_it_does_not_have_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="no option 'untis': there are command, groups, unit, uni"):
        open_at("command", "here", folder, command='["ls"]', untis="3")
