"""The benchmark of the world reports the ratios it promises; how large they are is not tested."""

import json

import pytest
from benchmarks.__main__ import run
from benchmarks.sim import measure


def test_ratios_are_those_of_the_speeds_beside_them() -> None:
    found = measure(rounds=1, steps=200, nodes=64)
    fleet, gym = found["fleet_steps_per_second"], found["gym_steps_per_second"]
    assert found["vector_over_gym"] == fleet / gym
    assert found["make_vec_over_make"] == found["make_vec_steps_per_second"] / gym
    assert found["gym_over_cartpole"] == gym / found["cartpole_steps_per_second"]
    assert found["nodes"] == 64


def test_figures_are_printed_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "--rounds", "1", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["vector_over_gym"] > 0
    assert shown.err, "it says what it does meanwhile"


def test_a_benchmark_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulation"]) == 2
    assert "simulation" in capsys.readouterr().err
