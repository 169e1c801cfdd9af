"""The benchmark of training reports the ratios it promises; how large they are is not tested."""

import json
import math
import os
import sys
from importlib.util import find_spec

import pytest
from benchmarks.__main__ import run
from tests.support import parts

NEEDED = ("jax", "torch", "stable_baselines3")


@pytest.mark.slow(seconds=40)
def test_ratios_are_those_of_the_rates_beside_them(capsys: pytest.CaptureFixture[str]) -> None:
    parts.package("torch")
    parts.package("stable_baselines3")
    cores = os.sched_getaffinity(0)
    assert run(["learn", "--json", "--rounds", "1", "--episodes", "1"]) == 0
    shown = capsys.readouterr()
    assert shown.err, "it says what it does meanwhile"
    found = json.loads(shown.out)
    assert all(math.isfinite(figure) and figure > 0 for figure in found.values())
    for agent in ("dqn", "double_dqn", "dueling_dqn", "d3qn", "ppo", "a2c", "drqn_cmdp"):
        rate = found[f"{agent}_updates_per_second"]
        assert found[f"{agent}_over_sb3_dqn"] == rate / found["sb3_dqn_updates_per_second"]
    assert found["drqn_cmdp_plus_over_sb3_dqn"] > 0
    pytorch = max(found[f"drqn_update_pytorch_{n}_per_second"] for n in ("one_core", "all_cores"))
    assert found["drqn_update_over_pytorch"] == found["drqn_update_jax_per_second"] / pytorch
    assert found["drqn_run_over_pytorch"] > 0
    assert os.sched_getaffinity(0) == cores, "the process may use all cores again"


@pytest.mark.parametrize("name", NEEDED)
def test_all_that_is_missing_is_named(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    assert run(["learn"]) == 2
    missing = [each for each in NEEDED if find_spec(each) is None]
    assert name in missing
    assert f"needs {', '.join(missing)}, which pip install" in capsys.readouterr().err
