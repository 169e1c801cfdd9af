"""An episode is drawn as text: audits, damage and detections."""

from typing import Any

import gymnasium
import pytest
from gymnasium.error import ResetNeeded

import holdfast.sim  # noqa: F401 - registers the environment
from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.scenario import PAPER
from holdfast.sim.environment import AuditEnv
from holdfast.sim.timeline import WIDTH, Timeline


def audit(time: int, corrupted: int = 0, delay: int = 0, *, detection: bool = False) -> Any:
    return {
        "gas": 0.25,
        "detection": detection,
        "miss": corrupted > 0 and not detection,
        "hidden": {"time": time, "corrupted_at_audit": corrupted, "delay": delay},
    }


def test_an_episode_is_drawn_to_scale() -> None:
    timeline = Timeline(PAPER)
    for info in (audit(10), audit(20, 3, 4), audit(30, 1000, 14, detection=True), audit(40)):
        timeline.record(10, info)
    assert timeline.draw(malicious=True).splitlines() == [
        "paper: malicious node, unit 40 of 365",
        "4 audits, gas 1.00, 1 detections (D), 1 misses (x)",
        "audits   . x D .",
        "damage     ▂██",
        f"unit    0{365:>{WIDTH - 1}}",
        "unit 20: missed, 3 of 1,000 blocks, damaged since unit 16",
        "unit 30: detected, 1,000 of 1,000 blocks, damaged since unit 16",
    ]


def test_a_column_shows_its_worst_audit_and_only_the_last_encounters_are_listed() -> None:
    timeline = Timeline(PAPER)
    for unit in range(1, 31):
        timeline.record(1, audit(unit, 1, 1, detection=unit % 5 == 0))
    lines = timeline.draw(malicious=False).splitlines()
    assert lines[2] == "audits  DDDDDD"
    assert lines[5] == "the last 10 of 30 audits that met damage:"
    assert lines[6:][0].startswith("unit 21: missed, 1 of 1,000 blocks")
    assert len(lines) == 16


def test_the_environment_renders_its_episode() -> None:
    env = gymnasium.make("holdfast/Audit-v0", render_mode="ansi")
    with pytest.raises(ResetNeeded):
        env.render()
    env.reset(seed=3, options={"malicious": True})
    assert "malicious node, unit 0 of 365" in str(env.render())
    over = False
    while not over:
        *_, over, _ = env.step(GRID.index_of(14, 0.10))
    text = str(env.render())
    assert text.startswith("paper: malicious node, unit 378 of 365\n27 audits")
    assert max(map(len, text.splitlines())) == len("damage  ") + WIDTH
    env.reset(seed=4)
    assert "0 audits" in str(env.render())


def test_another_render_mode_is_refused_and_none_draws_nothing() -> None:
    with pytest.raises(InputError, match="the render mode is 'ansi' or none, not 'human'"):
        AuditEnv(render_mode="human")
    env = AuditEnv()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode='ansi'"):
        assert env.render() is None
