"""Without a terminal, trainings print a line every so often."""

from pathlib import Path

import pytest
from tests.learn.worlds import run_of
from tests.support.command_line import without_progress

from holdfast.cli.training_progress import LINE_SECONDS, Lines
from holdfast.learn.pool import Job


def test_a_line_says_how_much_of_all_trainings_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    jobs = [Job(run_of("dqn", units=100, seed=seed), Path(f"runs/seed-{seed}")) for seed in (0, 1)]
    lines = Lines(jobs, lambda: now)
    lines.on_progress(jobs[0], "training", 1, {})
    assert not capsys.readouterr().err
    now += LINE_SECONDS
    lines.on_progress(jobs[0], "training", 20, {"gas": 5.04, "miss_rate": 0.05, "multiplier": 10.0})
    said = capsys.readouterr().err
    assert said == (
        "training: 10 %, runs/seed-0 training 20 of 100, gas 5.0, miss rate 5.0%, multiplier 10.0\n"
    )
    lines.on_progress(jobs[1], "training", 20, {})
    now += LINE_SECONDS
    lines.on_progress(jobs[1], "training", 100, {})
    later = capsys.readouterr().err
    assert later == "training: 60 %, about 48 s left, runs/seed-1 training 100 of 100\n"
    assert not without_progress(said + later)
    now += LINE_SECONDS
    lines.on_progress(jobs[1], "validation", 50, {})
    assert "training: 60 %" in capsys.readouterr().err
