"""A method of somebody else trains by the same loop: the example of the guide, and what is none."""

from pathlib import Path

import pytest
from tests.support import parts

from holdfast.cli.app import run
from holdfast.errors import InputError
from holdfast.policy import checkpoint

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "cross_entropy.py"
METHOD = f"{EXAMPLE}:CrossEntropy"
SHORT = 'name = "short"\nhorizon = 30\n'


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return str(path)


@pytest.mark.slow
def test_the_example_trains_and_its_checkpoint_acts(
    tmp_path: Path, scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parts.package("jax")
    out = tmp_path / "run"
    words = ["train", "--method", METHOD, "--scenario", scenario, "--out", str(out)]
    assert run([*words, "--rounds", "3"]) == 0
    assert "seed 0 was trained" in capsys.readouterr().out
    manifest = checkpoint.load(out).manifest
    assert manifest.method == METHOD
    assert manifest.training["settings"]["learner"] == METHOD
    assert len(manifest.training["settings"]["sha256"]) == 64
    assert run(["evaluate", "--policy", str(out), "--scenario", scenario, "--episodes", "20"]) == 0
    assert run([*words, "--rounds", "3"]) == 0
    assert "was trained before" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_training_of_the_example_ends_with_the_same_weights(tmp_path: Path) -> None:
    parts.package("jax")
    from holdfast.learn import methods, snapshot, training  # noqa: PLC0415 - an optional extra
    from holdfast.model.scenario import Scenario  # noqa: PLC0415

    world = Scenario(name="short", horizon=30)
    settings = methods.settings_of(METHOD, world)
    learner = training.begun(training.Run(METHOD, world, 3, 4, settings))
    learner.advance()
    snapshot.write(tmp_path / "state", learner.state())
    learner.advance()
    again = training.begun(training.Run(METHOD, world, 3, 4, settings))
    again.restore(snapshot.read(tmp_path / "state", again.state()))
    again.advance()
    for name, weights in learner.policy_weights().items():
        assert (again.policy_weights()[name] == weights).all()


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("{folder}/absent.py:Agent", "absent.py can't be read as a Python file"),
        ("{file}:Agent", "mine.py has no Agent: its classes are Half, Picky"),
        ("{file}:Half", "mine.py:Half is no learner: it has no architecture"),
        (
            "{file}:Picky",
            "mine.py:Picky can't be made with a scenario, a seed and units: TypeError",
        ),
        ("no.such.module:Agent", "the module no.such.module can't be imported"),
        ("json:Agent", "json has no Agent"),
        ("dqm", "there is no learned method 'dqm'"),
    ],
)
def test_what_is_no_method_is_refused_before_anything_is_written(
    tmp_path: Path, method: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parts.package("jax")
    file, out = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(
        "class Half:\n    def __init__(self, scenario, seed, units): pass\nclass Picky: pass\n"
    )
    given = method.format(file=file, folder=tmp_path)
    assert run(["train", "--method", given, "--out", str(out)]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_method_of_somebody_else_takes_no_ceiling_of_ours() -> None:
    parts.package("jax")
    from holdfast.learn.methods import with_ceiling  # noqa: PLC0415 - an optional extra

    with pytest.raises(InputError, match="has its own way to keep a ceiling"):
        with_ceiling(METHOD, 0.05)
