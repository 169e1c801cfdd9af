"""The fleets of the vectorised environment have scenarios of the stated ranges, renewed in turn."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from holdfast.learn.vec_env import VecEnv, sample_scenario
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import PAPER

RANGES = {"malicious_rate": (0.01, 0.1), "blocks": (100.0, 5000.0), "honest_rate": (1e-4, 1e-3)}


def test_drawn_scenarios_lie_in_their_ranges() -> None:
    rng = np.random.default_rng(0)
    scenarios = [sample_scenario(PAPER, RANGES, rng) for _ in range(300)]
    for name, (low, high) in RANGES.items():
        values = [getattr(scenario, name) for scenario in scenarios]
        assert low <= min(values) < 1.5 * low
        assert high / 1.5 < max(values) <= high
    middle = np.median([scenario.malicious_rate for scenario in scenarios])
    assert 0.025 < middle < 0.04, "by logarithm"
    assert {
        replace(scenario, **{n: getattr(PAPER, n) for n in RANGES}) for scenario in scenarios
    } == {PAPER}


def test_one_fleet_after_the_other_starts_anew() -> None:
    env = VecEnv(PAPER, RANGES, 24, np.random.default_rng(0))
    before = list(env._scenarios)
    for turn in range(4):
        env.step(np.full(24, 3))
        renewed = env.renew_fleet()
        assert np.flatnonzero(renewed).tolist() == list(range(8 * (turn % 3), 8 * (turn % 3) + 8))
        interval = env.observe()[:, OBSERVATION.index("previous_interval")]
        assert ((interval == 0) == renewed).all()
    assert len({*before, *env._scenarios}) == 6


def test_without_ranges_nothing_is_renewed() -> None:
    env = VecEnv(PAPER, {}, 10, np.random.default_rng(0))
    env.step(np.full(10, 3))
    assert not env.renew_fleet().any()
    assert (env.observe()[:, OBSERVATION.index("previous_interval")] > 0).all()


def test_a_node_whose_episode_is_over_starts_anew() -> None:
    env = VecEnv(replace(PAPER, horizon=14), {}, 4, np.random.default_rng(0))
    step = env.step(np.array([0, 20, 0, 20]))  # intervals of 1 and 14
    assert step.finished.tolist() == [False, True, False, True]
    assert env._fleets[0].time.tolist() == [1, 0, 1, 0]


def test_a_restored_environment_continues_as_the_one_saved() -> None:
    rng, other_rng = np.random.default_rng(1), np.random.default_rng(2)
    env, other = VecEnv(PAPER, RANGES, 16, rng), VecEnv(PAPER, RANGES, 16, other_rng)
    env.step(np.full(16, 3))
    env.renew_fleet()
    env.observe()
    other.restore(jax.tree.map(np.copy, env.trees()), env.facts())
    other_rng.bit_generator.state = rng.bit_generator.state
    for restored in (env, other):
        restored.step(np.full(16, 9))
        restored.renew_fleet()
    assert (env.observe() == other.observe()).all()
    assert env._scenarios == other._scenarios


@pytest.mark.parametrize("nodes", [7, 12])
def test_nodes_that_do_not_fill_fleets_are_refused(nodes: int) -> None:
    with pytest.raises(ValueError, match="eight"):
        VecEnv(PAPER, RANGES, nodes, np.random.default_rng(0))
