"""The guide shows the examples as they are, and what it shows works."""

import tomllib
from pathlib import Path

import pytest
from tests.docs.blocks import blocks_of
from tests.docs.commands import ROOT

import holdfast
from holdfast.errors import InputError
from holdfast.model.scenario import PAPER
from holdfast.policy.plugins import GROUP

PAGE = ROOT / "docs" / "extending.md"
EXAMPLES = ROOT / "docs" / "examples"


def shown(*words: str) -> str:
    (block,) = [block for block in blocks_of(PAGE) if block.words == words]
    return block.text


def test_the_page_shows_the_policy_of_the_examples() -> None:
    assert shown("first_week.py") == (EXAMPLES / "first_week.py").read_text()


def test_the_learner_is_as_short_as_a_reader_may_expect() -> None:
    source = (EXAMPLES / "cross_entropy.py").read_text()
    code = [line for line in source.splitlines() if line.strip() and '"""' not in line]
    assert len(code) <= 60


def test_the_scenario_on_the_page_is_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(shown("scenario"))
    mine = holdfast.scenario(file)
    assert (mine.name, mine.blocks, mine.horizon) == ("mine", 5000, PAPER.horizon)


def test_the_entry_point_on_the_page_is_of_the_group_that_is_read() -> None:
    (block,) = [block for block in blocks_of(PAGE) if "[build-system]" in block.text]
    assert tomllib.loads(block.text)["project"]["entry-points"] == {
        GROUP: {"first-week": "first_week:FirstWeek"}
    }


def test_the_policy_on_the_page_is_evaluated_as_the_page_tells() -> None:
    space: dict[str, type] = {}
    exec(shown("first_week.py"), space)  # noqa: S102
    by_name = holdfast.evaluate(f"{EXAMPLES}/first_week.py:FirstWeek", episodes=20)
    policy: object = space["FirstWeek"]()
    assert holdfast.evaluate(policy, episodes=20) == by_name  # type: ignore[arg-type]


def test_a_wrong_field_of_a_scenario_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(shown("scenario").replace("blocks", "block"))
    with pytest.raises(InputError, match=r"mine\.toml: scenario field block"):
        holdfast.scenario(file)


def test_the_citation_names_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {holdfast.__version__}" in lines
    assert "license: Apache-2.0" in lines
