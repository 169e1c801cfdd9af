"""Scenarios, policies and actions that documents name exist."""

import re
from pathlib import Path

import pytest
from tests.docs.commands import DOCUMENTS, ROOT

from holdfast.model.action import GRID
from holdfast.model.operation import OPERATION
from holdfast.model.scenario import SCENARIOS, scenario_named
from holdfast.policy.registry import LEARNED, NAMES, policy_named

CODE = re.compile(r"`([^`\n]+)`")
# Names in a row: `paper`, `drift` or `field`.
ROW = re.compile(r"`[^`\n]+`(?:(?:, | or | and |, or |, and )`[^`\n]+`)+")
# Numbers in a row, and what they count: 1, 3, 5, 10 or 20 %.
NUMBERS = re.compile(r"(\d[\d.]*(?:(?:, | or | and )\d[\d.]*){3,}) (%|units)")
NAMED = re.compile(r"""(?:--scenario[ =]|scenario ?[=:] ?|scenario )["'`]([\w-]+)""")
WORD = re.compile(r"[\w.@:,=/-]+")

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


@documents
def test_a_row_of_names_with_one_of_ours_has_only_ours(document: Path) -> None:
    for row in ROW.findall(document.read_text()):
        names = CODE.findall(row)
        if all((ROOT / "src" / "holdfast" / name).is_dir() for name in names):
            continue  # the package `paper`, beside others
        for known, least in ((SCENARIOS, 1), (NAMES, 2)):
            plain = [re.split("[:@]", name)[0] for name in names]
            if sum(name in known for name in plain) >= least:
                assert [name for name in plain if name not in known] == [], row


@documents
def test_scenarios_exist(document: Path) -> None:
    text = document.read_text()
    for name in [*NAMED.findall(text), *re.findall(r"--scenario (\w+)\b(?!\.toml)", text)]:
        if name != OPERATION.name:
            scenario_named(name)


@documents
def test_actions_are_those_of_the_grid(document: Path) -> None:
    for row, what in NUMBERS.findall(document.read_text()):
        numbers = [float(number) for number in re.findall(r"[\d.]+", row)]
        grid = [100 * ratio for ratio in GRID.ratios] if what == "%" else [*GRID.intervals]
        assert numbers == pytest.approx(grid), row


@documents
def test_policies_exist_with_the_options_that_are_shown(document: Path) -> None:
    for word in {*WORD.findall(document.read_text())}:
        name = word.rstrip(".,:")
        kind, _, options = name.partition(":")
        method, at, trained_for = kind.partition("@")
        if method not in (*LEARNED, "constant") or not (at or options):
            continue
        scenario = scenario_named(trained_for) if at else SCENARIOS["paper"]
        assert not policy_named(name, scenario).privileged, name


def test_the_checks_above_have_something_to_check() -> None:
    """The tutorial named a ratio of 2 % and a scenario called drifting, and nothing noticed."""
    text = (ROOT / "docs" / "tutorial.md").read_text()
    assert any("`drift`" in row for row in ROW.findall(text))
    assert {what for _, what in NUMBERS.findall(text)} == {"%", "units"}
