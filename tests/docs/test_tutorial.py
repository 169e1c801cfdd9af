"""The tutorial runs as it is written, with fewer steps, and what it says is so."""

import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest
from tests.docs.tutorial import TUTORIAL, program
from tests.support import parts

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import DRIFT, FIELD, PAPER, SCENARIOS, Scenario, scenario_from
from holdfast.policy.serving import load_serving
from holdfast.sim.reward import reward_of_one


def shorter() -> str:
    """Return the tutorial's program with fewer steps, episodes and rounds."""
    text = program()
    for long, short in {
        "20_000": "1_000",
        "episodes=500": "episodes=20",
        "RHO = 40": "RHO = 2",
    }.items():
        assert long in text
        text = text.replace(long, short)
    return text


@pytest.mark.slow
def test_what_needs_no_other_package_runs(capsys: pytest.CaptureFixture[str]) -> None:
    ours, _, _ = shorter().partition("from stable_baselines3")
    exec(compile(ours, "tutorial", "exec"), {})  # noqa: S102
    said = capsys.readouterr().out
    assert said.startswith("signals")
    assert "belief:rho=0.05,latency=9.1" in said
    assert "27 audits" in said, "the episode is drawn"
    assert re.search(r"the price is \d+\.\d and the miss rate 0\.\d+", said)


@pytest.mark.slow
def test_the_tutorial_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.package("stable_baselines3")
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path))
    exec(compile(shorter(), "tutorial", "exec"), {"__name__": "tutorial"})  # noqa: S102
    said = capsys.readouterr().out
    assert "drqn-cmdp-plus" in said
    assert "DQN, 20,000 steps" in said
    (multipliers,) = re.findall(r"the multipliers are \[(.+)\]", said)
    assert len(set(multipliers.split(", "))) == 1, "every node has the same"
    assert float(multipliers.split(", ")[0]) != 10.0, "and it has moved"


def sentence(beginning: str) -> str:
    """Return the paragraph of the tutorial that begins so."""
    (found,) = [line for line in TUTORIAL.read_text().splitlines() if line.startswith(beginning)]
    return found


def test_what_it_says_of_the_environment_is_so() -> None:
    said = sentence("An episode has one node.")
    assert f"lasts {PAPER.horizon} units" in said
    assert f"{PAPER.blocks:,} blocks" in said
    assert f"({_list(GRID.intervals)} units)" in said
    assert f"({_list(round(100 * ratio) for ratio in GRID.ratios)} %)" in said
    assert f"caps the sample at {FIELD.sample_cap:,} blocks, a tenth" in said
    assert FIELD.sample_cap * 10 == FIELD.blocks
    ratios = len(GRID.ratios)
    assert len(set(FIELD.samples_of[:ratios].tolist())) == ratios - 1
    assert "You see five signals" in said
    assert len(OBSERVATION) == 5


def test_the_scenarios_that_it_names_are_those_there_are() -> None:
    said = sentence("`import holdfast` registers the environment")
    names = re.findall(r"`(\w+)`", said[said.index("`scenario` is") :])
    assert names == ["scenario", *SCENARIOS]


def test_a_file_sets_any_field_of_a_scenario() -> None:
    for field in fields(Scenario):
        value = getattr(DRIFT, field.name)
        assert getattr(scenario_from({field.name: value}), field.name) == value


def test_the_price_of_a_miss_is_the_one_it_gives() -> None:
    assert "`10 * multiplier * max(share, 0.01)`" in sentence("The environment's own reward")
    for corrupted in (1, 300):
        earned = reward_of_one(PAPER, 7.0, corrupted=corrupted, detected=False, gas=0, compute=0)
        assert earned == pytest.approx(-10 * 7.0 * max(corrupted / 1000, 0.01))


def test_what_it_says_of_serving_is_so() -> None:
    assert "a checkpoint" in sentence("- You can serve a rule of ours or a checkpoint")
    assert load_serving("two-speed", PAPER).rho is None
    assert load_serving("drqn-cmdp-plus", PAPER).manifest is not None
    with pytest.raises(InputError, match="can run in shadow only"):
        load_serving(f"{TUTORIAL.parent}/examples/first_week.py:FirstWeek", PAPER)


def _list(numbers: Iterable[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} or {last}"
