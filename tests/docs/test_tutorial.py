"""The tutorial runs as it is written, with fewer steps."""

import re
from pathlib import Path

import pytest
from tests.docs.tutorial import program
from tests.support import parts


@pytest.mark.slow
def test_what_needs_no_other_package_runs(capsys: pytest.CaptureFixture[str]) -> None:
    ours, _, _ = program().partition("from stable_baselines3")
    exec(compile(ours.replace("episodes=500", "episodes=20"), "tutorial", "exec"), {})  # noqa: S102
    said = capsys.readouterr().out
    assert said.startswith("signals")
    assert "belief:rho=0.05,latency=9.1" in said


def test_the_tutorial_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.package("stable_baselines3")
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path))
    shorter = program().replace("20_000", "1_000").replace("episodes=500", "episodes=20")
    exec(compile(shorter, "tutorial", "exec"), {"__name__": "tutorial"})  # noqa: S102
    said = capsys.readouterr().out
    assert "drqn-cmdp-plus" in said
    assert "DQN, 20,000 steps" in said
    (multipliers,) = re.findall(r"the multipliers are \[(.+)\]", said)
    assert len(set(multipliers.split(", "))) == 1, "every node has the same"
    assert float(multipliers.split(", ")[0]) != 10.0, "and it has moved"
