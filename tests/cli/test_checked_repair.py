"""What `holdfast repair` prints of storage that a tool checks."""

import pytest

from holdfast.checkers.interface import Damage, DamagedUnit, Defect
from holdfast.cli.checked_repair import _describe
from holdfast.cli.terminal import report
from holdfast.owner.checked import CheckedRecord


def test_names_are_printed_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\rb\nc\u202ed"
    unit = DamagedUnit(name, Defect.CHANGED, name, name)
    damage = Damage((unit,), (name,), (("tool", name),), advice=name)
    record = CheckedRecord("attic", "command", "here", {}, "folder", "unit", 1, 1)
    lines = list(_describe(record, damage, quarantined=False))
    report({}, lines, as_json=False)
    printed = capsys.readouterr().out
    assert printed.count("\n") == len(lines)
    assert not {"\r", "\u202e"} & set(printed)
    assert r"a\rb\nc\u202ed: changed" in printed
