"""Scenarios, policies, evaluation and training through the public API."""

from pathlib import Path
from typing import Any

import gymnasium
import pytest
from tests.support import parts
from tests.support.docstrings import run_examples
from tests.support.processes import run_python

import holdfast
from holdfast.errors import InputError
from holdfast.model.scenario import PAPER
from holdfast.policy.registry import policy_named
from holdfast.sim import evaluation
from holdfast.sim.measures import measure

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("function", ["scenario", "policy", "evaluate"])
def test_the_examples_run(function: str) -> None:
    assert run_examples(getattr(holdfast, function)) >= 2


@pytest.mark.slow
def test_training_runs_as_its_example_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.package("jax")
    monkeypatch.chdir(tmp_path)
    program = (
        "import holdfast; from tests.support.docstrings import run_examples;"
        "print(run_examples(holdfast.train))"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert run_python(program).split()[-1] == "3"


@pytest.mark.slow
def test_several_seeds_have_a_folder_each_and_resume(tmp_path: Path) -> None:
    parts.package("jax")
    progress = []
    folders = holdfast.train(
        *("dqn", "paper", tmp_path),
        seeds=(3, 5),
        units=2,
        on_progress=lambda seed, phase, done: progress.append((seed, phase, done)),
    )
    assert folders == [tmp_path / "seed-3", tmp_path / "seed-5"]
    assert {(3, "training", 2), (5, "training", 2)} <= set(progress)
    progress.clear()
    assert holdfast.train("dqn", "paper", tmp_path, seeds=(3, 5), units=2) == folders
    assert not progress, "they are finished"


def test_a_scenario_comes_from_a_name_or_a_file_with_changes(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('base = "field"\nblocks = 7000\n')
    assert holdfast.scenario("paper") == PAPER
    mine = holdfast.scenario(file, horizon=30)
    assert (mine.name, mine.blocks, mine.horizon) == ("mine", 7000, 30)


def test_evaluation_gives_what_the_command_line_gives() -> None:
    expected = measure(
        evaluation.evaluate(policy_named("two-speed", PAPER), PAPER, episodes=30, seed=4)
    )
    assert holdfast.evaluate("two-speed", episodes=30, seed=4) == expected
    assert holdfast.evaluate(holdfast.policy("two-speed"), PAPER, episodes=30, seed=4) == expected


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: holdfast.scenario("papr"), "there is no scenario 'papr'"),
        (lambda: holdfast.scenario("paper", block=3), "field block: there is no such field"),
        (lambda: holdfast.scenario("paper", blocks=0), "field blocks: must lie between"),
        (lambda: holdfast.policy("beleif"), "there is no policy 'beleif'"),
        (lambda: holdfast.policy("belief:rho=x"), "rho must be a number"),
        (lambda: holdfast.evaluate("fixed-high", episodes=0), "at least one episode"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"method": "dqm"}, "there is no learned method 'dqm'"),
        ({"seeds": ()}, "at least one seed"),
        ({"seeds": (-1,)}, "a seed is a whole number"),
        ({"units": 0}, "at least one episode or round"),
        ({"rho": 0.05}, "dqn has a fixed multiplier"),
    ],
)
def test_bad_trainings_are_refused_before_anything_is_written(
    arguments: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    parts.package("jax")
    training: dict[str, Any] = {"method": "dqn", "scenario": "paper", "out": tmp_path / "run"}
    with pytest.raises(InputError, match=sentence):
        holdfast.train(**training | arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import gymnasium, holdfast", "holdfast/Audit-v0"),
        ("import gymnasium", "holdfast:holdfast/Audit-v0"),
        ("import gymnasium", "holdfast.sim:holdfast/Audit-v0"),
    ],
)
def test_gymnasium_makes_the_environment_in_a_fresh_process(imports: str, name: str) -> None:
    program = (
        f"{imports}\n"
        f"env = gymnasium.make({name!r}, scenario='drift')\n"
        "observation, info = env.reset(seed=1)\n"
        f"envs = gymnasium.make_vec({name!r}, 2, scenario='drift')\n"
        "print(env.observation_space.contains(observation), env.scenario.name, type(envs).__name__)"
    )
    assert run_python(program).split() == ["True", "drift", "AuditVectorEnv"]
    assert gymnasium.spec("holdfast/Audit-v0").entry_point == "holdfast.sim.environment:AuditEnv"


NO_NAMES = ["a\0b", "x" * 5000, "\ud800x", "", None]


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_can_be_no_name_is_an_input_error_of_one_short_sentence(
    tmp_path: Path, name: Any
) -> None:
    parts.package("jax")
    for call in (
        lambda: holdfast.scenario(name),
        lambda: holdfast.policy(name),
        lambda: holdfast.evaluate(name, episodes=1),
        lambda: holdfast.evaluate("fixed-low", name, episodes=1),
        lambda: holdfast.train(name, "paper", tmp_path, units=1),
        lambda: holdfast.train("dqn", name, tmp_path, units=1),
        lambda: holdfast.train("dqn", "paper", name, units=1),
        lambda: holdfast.open_home(name, b"a passphrase"),
    ):
        with pytest.raises(InputError) as refused:
            call()
        sentence = str(refused.value)
        assert len(sentence.encode()) < 200
        assert "\n" not in sentence


@pytest.mark.parametrize("seed", [-1, 1.5, True, None, "1"])
def test_what_is_no_seed_is_an_input_error(tmp_path: Path, seed: Any) -> None:
    parts.package("jax")
    with pytest.raises(InputError, match="a seed is a whole number from 0 on, not"):
        holdfast.evaluate("fixed-low", episodes=1, seed=seed)
    with pytest.raises(InputError, match="a seed is a whole number from 0 on, not"):
        holdfast.train("dqn", "paper", tmp_path, seeds=[seed], units=1)


@pytest.mark.parametrize("passphrase", [None, 7, "\ud800"])
def test_what_is_no_passphrase_is_an_input_error(tmp_path: Path, passphrase: Any) -> None:
    with pytest.raises(InputError, match=r"^a passphrase must be a text or bytes$"):
        holdfast.open_home(tmp_path, passphrase)
