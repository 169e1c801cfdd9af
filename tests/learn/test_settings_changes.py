"""Settings are changed by key and value or by a file, and what can't be used is named."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InputError
from holdfast.learn.methods import METHODS, settings_of
from holdfast.learn.settings_changes import as_toml, change_settings, read_changes
from holdfast.policy.lagrangian import Ceilings


def changed(method: str, *pairs: str) -> Any:
    return change_settings(settings_of(method), read_changes(pairs), method)


@pytest.mark.parametrize("method", METHODS)
def test_the_settings_shown_are_a_file_that_gives_the_same_settings(
    method: str, tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("\n".join(as_toml(settings_of(method))))
    changes = read_changes([], file)
    assert len(changes) > 5
    assert change_settings(settings_of(method), changes, method) == settings_of(method)


def test_values_of_every_kind_can_be_set() -> None:
    settings = changed(
        "drqn-cmdp",
        "learning_rate=5e-4",
        "features=[64, 32]",
        "batch_size=16",
        "multiplier.step=2",
        'inputs.masked=["reputation"]',
    )
    assert (settings.learning_rate, settings.features, settings.batch_size) == (5e-4, (64, 32), 16)
    assert settings.multiplier.step == 2.0
    assert settings.multiplier.ceiling == 0.05
    assert settings.inputs.masked == ("reputation",)
    assert changed("ppo", "clip_range=none").clip_range is None
    assert changed("dqn", "double=true").double
    plus = changed(
        "drqn-cmdp-plus",
        "ranges.blocks=[100, 1000]",
        "targets=[[0.1], [0.2, 9.0]]",
        "default.miss_rate=0.2",
        "dials.rho=[0.1, 0.3]",
    )
    assert plus.ranges == {"blocks": (100.0, 1000.0)}
    assert plus.targets == (Ceilings(0.1), Ceilings(0.2, 9.0))
    assert plus.default.miss_rate == 0.2
    assert plus.dials.rho == (0.1, 0.3)


def test_a_key_on_the_command_line_takes_precedence_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("learning_rate = 0.5\n[multiplier]\nstep = 3\n")
    assert read_changes(["learning_rate=0.25"], file) == {
        "learning_rate": 0.25,
        "multiplier.step": 3,
    }


@pytest.mark.parametrize(
    ("method", "pair", "named"),
    [
        ("ppo", "lr=1", r"no setting 'lr': its settings are epochs, clip_range, .*max_grad_norm"),
        ("ppo", "multiplier=3", "no setting 'multiplier'"),
        ("ppo", "multiplier.steps=3", "no setting 'multiplier.steps'"),
        ("ppo", "inputs.dial=true", "no setting 'inputs.dial'"),
        ("ppo", "learning_rate", "write a setting as in"),
        ("ppo", "=1", "write a setting as in"),
        ("ppo", "learning_rate=fast", "must be a number"),
        ("ppo", "learning_rate=true", "must be a number"),
        ("ppo", "learning_rate=0", "above 0"),
        ("ppo", "learning_rate=nan", "at least 0"),
        ("ppo", "epochs=1.5", "whole number"),
        ("ppo", "epochs=0", "at least 1"),
        ("ppo", "discount=1.01", "at most 1"),
        ("ppo", "features=64", "a list"),
        ("ppo", "features=[]", "not be empty"),
        ("ppo", "features=[64.5]", "whole number"),
        ("ppo", 'inputs.masked=["nothing"]', "no signal 'nothing'"),
        ("dqn", "double=1", "true or false"),
        ("dqn", "buffer_size=32", "nothing would be learned"),
        ("drqn-cmdp", "sequence_length=5000", "nothing would be learned"),
        ("drqn-cmdp-plus", "ranges.colour=[1, 2]", "no number of a scenario"),
        ("drqn-cmdp-plus", "ranges.blocks=[2, 1]", "a range goes"),
        ("drqn-cmdp-plus", "ranges=3", "a table"),
        ("drqn-cmdp-plus", "targets=[[2.0]]", "targets"),
        ("drqn-cmdp-plus", "dials.rho=[0.1]", "a list of 2"),
    ],
)
def test_what_is_no_setting_is_told_in_one_sentence(method: str, pair: str, named: str) -> None:
    with pytest.raises(InputError, match=named) as refused:
        changed(method, pair)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("learning_rate: 3")
    with pytest.raises(InputError, match=r"settings\.toml is not a TOML file"):
        read_changes([], file)
