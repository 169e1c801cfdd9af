"""Checks by a program of the operator's own: the kind `command`.

The program is an argument list, in JSON; there is no shell. It learns from its environment what to
check, says by its exit code how that went (0 intact, 1 damaged, 75 not reachable or locked), and by
one line of JSON what it checked: {"checked": 12, "of": 240, "damaged": ["name"], "bytes": 5000}.
"""

import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast import atomic, jsontext
from holdfast.checkers import codec
from holdfast.checkers.interface import (
    DamagedUnit,
    Defect,
    Extent,
    Finding,
    Group,
    Place,
    Report,
    Sample,
)
from holdfast.checkers.output_tail import Ended, run_program
from holdfast.checkers.process_checker import ProcessChecker, Progress, now, without_result
from holdfast.checkers.secret_options import refuse_secret_arguments
from holdfast.checkers.tool_process import check_options, hide_secrets
from holdfast.errors import InputError, MalformedError
from holdfast.words import plural, size

DEFAULT_UNITS = 100  # until the program has said how many there are
MAX_GROUPS_BYTES = 64 << 20
EXIT_INTACT, EXIT_DAMAGED, EXIT_UNREACHABLE = 0, 1, 75
OPTIONS = ("command", "groups", "unit", "units")
MAX_OUTPUT_BYTES = 16 << 20  # of which the last line of JSON is read
_HALF = 2000  # characters of each stream that become the report's words
_SEEN = 64 << 10  # bytes of each stream in which passwords are looked for


@dataclass(frozen=True)
class _Known:
    """What the program said last about all there is."""

    units: int
    bytes: int  # reckoned from those that it read


@dataclass(frozen=True)
class _Answer:
    checked: int
    of: int
    damaged: tuple[str, ...]
    damaged_units: int
    bytes: int


class CommandChecker(ProcessChecker):
    kind = "command"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        check_options(self.kind, place.options, OPTIONS)
        self._command = _parse_command(place.options.get("command", ""))
        self._units = _parse_units(place.options.get("units", str(DEFAULT_UNITS)))
        self._memory = place.folder / "known.json"

    def extent(self) -> Extent:
        program = self._command[0]
        if shutil.which(program) is None:
            raise InputError(f"there is no program {program}: install it, or give its whole path")
        known, groups = self._known(), self._groups()
        units = len(groups) or known.units
        unit = self.place.options.get("unit", "unit")
        return Extent(unit, units, known.bytes, Path(program).name, groups)

    def run(self, sample: Sample, on_progress: Progress) -> Report:
        began = now()
        on_progress(0, sample.units)
        ended = run_program(self._command, self._environment(sample), MAX_OUTPUT_BYTES)
        report = _judge(ended, sample)
        if report.checked:
            known = _Known(report.units, report.read_bytes * report.units // report.checked)
            atomic.write(self._memory, codec.dump(known), mode=atomic.PRIVATE)
        tool = Path(self._command[0]).name
        return replace(report, began=began, ended=now(), tool=tool, words=_words(ended))

    def _known(self) -> _Known:
        try:
            return codec.load(_Known, self._memory.read_bytes(), str(self._memory))
        except (FileNotFoundError, MalformedError):
            return _Known(self._units, 0)

    def _groups(self) -> tuple[Group, ...]:
        path = self.place.options.get("groups")
        if path is None:
            return ()
        content = atomic.read(Path(path), at_most=MAX_GROUPS_BYTES).decode(errors="surrogateescape")
        names = [line for line in content.splitlines() if line.strip()]
        if not names:
            raise InputError(f"{path} names no group: write one on each line")
        if len(set(names)) < len(names):
            raise InputError(f"{path} names a group twice")
        return tuple(Group(name) for name in names)

    def _environment(self, sample: Sample) -> dict[str, str]:
        units = len(self._groups()) or self._known().units
        variables = {
            "HOLDFAST_ADDRESS": self.place.address,
            "HOLDFAST_SEED": sample.seed.hex(),
            "HOLDFAST_SAMPLE": f"{min(1.0, sample.units / max(units, 1)):.6g}",
            "HOLDFAST_UNITS": str(sample.units),
        }
        if sample.groups:
            path = self.scratch / "groups.txt"
            lines = b"".join(_encode(f"{name}\n") for name in sample.groups)
            atomic.write(path, lines, mode=atomic.PRIVATE)
            variables["HOLDFAST_GROUPS_FILE"] = str(path)
        return {**os.environ, **variables}


def _judge(ended: Ended, sample: Sample) -> Report:
    """Return what a program's end says about the data; in doubt, nothing."""
    if ended.code == EXIT_UNREACHABLE:
        return _without(Finding.UNREACHABLE, "the command says that the storage is away or locked")
    if ended.code < 0:
        return _without(Finding.UNKNOWN, f"the command was killed by signal {-ended.code}")
    if ended.code not in {EXIT_INTACT, EXIT_DAMAGED}:
        return _without(
            Finding.UNKNOWN, f"the command could not run: its exit code is {ended.code}"
        )
    try:
        answer = _read_answer(ended.output.content())
    except MalformedError as error:
        return _without(Finding.UNKNOWN, str(error))
    if contradiction := _contradiction(ended.code, answer):
        return _without(Finding.UNKNOWN, contradiction)
    bad = set(answer.damaged)
    all_read = answer.checked >= len(sample.groups)
    return Report(
        finding=Finding.DAMAGED if bad else Finding.INTACT,
        reason=f"{plural(len(bad), 'unit is', 'units are')} damaged" if bad else "",
        units=answer.of,
        checked=answer.checked,
        damaged=tuple(DamagedUnit(name, Defect.CHANGED, name) for name in answer.damaged),
        verified=tuple(name for name in sample.groups if name not in bad) if all_read else (),
        read_bytes=answer.bytes,
        requests=0,
        began=0,
        ended=0,
        tool="",
    )


def _contradiction(code: int, answer: _Answer) -> str:
    """Return why an exit code and what was printed make no sense together, if they don't."""
    if answer.checked > answer.of:
        return f"the command checked {answer.checked} of {plural(answer.of, 'unit')}"
    if answer.damaged_units > answer.checked:
        units = plural(answer.damaged_units, "damaged unit")
        return f"the command checked {plural(answer.checked, 'unit')} and counts {units}"
    if code == EXIT_INTACT and answer.damaged_units:
        units = plural(answer.damaged_units, "damaged unit")
        return f"the command ended with 0, which means intact, and counts {units}"
    if code == EXIT_DAMAGED and not answer.damaged:
        return "the command ended with 1, which means damaged, and names no damaged unit"
    return ""


def _read_answer(output: bytes) -> _Answer:
    """Return what the last line of JSON says."""
    end = len(output)
    while end >= 0:
        start = output.rfind(b"\n", 0, end) + 1
        if output[start:end].lstrip().startswith(b"{"):
            return _parse_answer(output[start:end])
        end = start - 1
    raise MalformedError("the command printed no line of JSON that says what it checked")


def _parse_answer(line: bytes) -> _Answer:
    try:
        document = jsontext.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise MalformedError("the last line of the command is no JSON") from error
    damaged = document.get("damaged", [])
    if isinstance(damaged, list) and all(isinstance(name, str) and name for name in damaged):
        names, units = tuple(dict.fromkeys(damaged)), len(set(damaged))
    else:
        names, units = (), _count(damaged, "damaged")
    return _Answer(
        checked=_count(document.get("checked"), "checked"),
        of=_count(document.get("of"), "of"),
        damaged=names,
        damaged_units=units,
        bytes=_count(document.get("bytes", 0), "bytes"),
    )


def _count(value: object, field: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise MalformedError(f"the command's line of JSON has no count in the field {field!r}")
    return value


def _parse_command(text: str) -> list[str]:
    try:
        command = jsontext.loads(text)
    except (ValueError, RecursionError):
        command = None
    if not isinstance(command, list) or not command or not all(map(_is_argument, command)):
        example = json.dumps(["/usr/local/bin/check-tapes", "--quick"])
        raise InputError(f"the command must be a JSON list of its arguments, such as {example}")
    refuse_secret_arguments(command)
    return command


def _is_argument(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _parse_units(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 53:
        raise InputError(f"the number of units must be a whole number above 0, not {text!r}")
    return int(text)


def _encode(text: str) -> bytes:
    """Return a text as the bytes that a file system has for it, whatever surrogates it holds."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def _without(finding: Finding, reason: str) -> Report:
    return without_result(finding, reason, began=0, ended=0)


def _words(ended: Ended) -> str:
    total = ended.output.total + ended.errors.total
    ends = (hide_secrets(stream.end(_SEEN), ()) for stream in (ended.errors, ended.output))
    parts = [text.strip()[-_HALF:] for text in ends]
    words = "\n".join(part for part in parts if part)
    return words if total <= 2 * _HALF else f"(the end of {size(total)})\n{words}"
