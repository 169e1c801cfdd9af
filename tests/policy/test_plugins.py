"""Policies of other people: a class in a file, or a name that an installed package offers."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast.cli.app import run
from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.scenario import DRIFT, PAPER
from holdfast.policy.plugins import GROUP, is_policy_plugin
from holdfast.policy.registry import locate, policy_named, portable
from holdfast.policy.serving import load_serving

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
WEEKLY = GRID.index_of(7, 0.05)
SOURCE = f"""
from dataclasses import dataclass
import numpy as np

@dataclass
class Weekly:
    blocks: int = 0
    def initial_state(self, batch):
        return None
    def act(self, state, observations):
        return np.full(len(observations), {WEEKLY}), state

def sized(scenario):
    return Weekly(scenario.blocks)

def nothing():
    return 5

class Broken:
    def __init__(self):
        raise RuntimeError("no\\nluck")

CONSTANT = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def test_a_class_in_a_file_is_a_policy(file: Path) -> None:
    name = f"{file}:Weekly"
    ours = holdfast.evaluate("constant:7,0.05", episodes=20, seed=3)
    assert holdfast.evaluate(name, episodes=20, seed=3) == ours
    assert locate(name, PAPER) is None


def test_a_factory_that_takes_one_is_given_the_scenario(file: Path) -> None:
    for scenario in (PAPER, DRIFT):
        policy: object = policy_named(f"{file}:sized", scenario)
        assert vars(policy)["blocks"] == scenario.blocks


def test_it_is_found_from_another_folder_and_in_another_process(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(file.parent)
    build = pickle.loads(pickle.dumps(portable("mine.py:Weekly", PAPER)))  # noqa: S301 - our own
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    policy = build()
    actions, _ = policy.act(policy.initial_state(2), np.zeros((2, 5)))
    assert actions.tolist() == [WEEKLY, WEEKLY]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("{file}:Monthly", "mine.py has no Monthly: its classes are Weekly, Broken"),
        ("{folder}/absent.py:Weekly", "absent.py can't be read as a Python file"),
        ("{file}:nothing", "mine.py:nothing is no policy: it has no method initial_state"),
        ("{file}:CONSTANT", "mine.py:CONSTANT is no class"),
        ("{file}:Broken", "mine.py:Broken can't be made: RuntimeError: no luck"),
        ("{folder}/bad.py:X", "bad.py can't be run: SyntaxError"),
        ("{folder}/needy.py:X", "needy.py can't be run: ModuleNotFoundError: No module named"),
    ],
)
def test_what_is_no_policy_is_refused_in_one_sentence(
    file: Path, name: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "bad.py").write_text("class X(:\n")
    (file.parent / "needy.py").write_text("import nowhere_to_be_found\n")
    given = name.format(file=file, folder=file.parent)
    with pytest.raises(InputError) as refused:
        policy_named(given, PAPER)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert run(["evaluate", "--policy", given, "--episodes", "5"]) == 2
    assert run(["paper", "table1", "--policy", given]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_installed_package_offers_a_policy_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    info = site / "weekly-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: weekly\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{GROUP}]\nweekly = weekly_policy:Weekly\nlost = weekly_policy:Lost\n"
        "fixed-high = weekly_policy:Weekly\n"
    )
    (site / "weekly_policy.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(site)
    assert is_policy_plugin("weekly")
    assert type(policy_named("weekly", PAPER)).__module__ == "weekly_policy"
    assert type(policy_named("fixed-high", PAPER)).__module__ == "holdfast.policy.rules"
    with pytest.raises(InputError, match="the policy 'lost' of weekly can't be loaded"):
        policy_named("lost", PAPER)
    with pytest.raises(InputError, match="there is no policy 'monthly'"):
        policy_named("monthly", PAPER)
    sys.modules.pop("weekly_policy", None)


def test_serving_refuses_a_plug_in_without_running_it(file: Path) -> None:
    mark = file.parent / "ran"
    file.write_text(f"open({str(mark)!r}, 'w').close()\n{SOURCE}")
    with pytest.raises(InputError, match="is a plug-in: it can run in shadow only"):
        load_serving(f"{file}:Weekly", PAPER)
    assert not mark.exists()
    served = load_serving(f"{file}:Weekly", PAPER, with_plugins=True)
    assert mark.exists()
    assert served.plugin
    file.write_text(SOURCE)
    other = load_serving(f"{file}:Weekly", PAPER, with_plugins=True)
    assert other.version != served.version, "the version is that of the file's content"


@pytest.mark.slow
def test_the_example_runs_in_the_papers_table(capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{EXAMPLES}/first_week.py:FirstWeek"
    assert run(["evaluate", "--policy", name, "--episodes", "20"]) == 0
    assert "FirstWeek" in capsys.readouterr().out.replace("\n", "")
    assert run(["paper", "table1", "--policy", "fixed-high", "--json"]) == 0
    shown = capsys.readouterr().out
    assert shown.count('"policy": "fixed-high"') == 2, "shipped, and tried again"
    assert run(["paper", "shift", "--policy", name]) == 2
