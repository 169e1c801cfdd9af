"""A crowd of nodes lives in scenarios of the stated ranges, and takes turns to start anew."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from holdfast.learn.vec_env import Crowd, drawn
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import PAPER

RANGES = {"malicious_rate": (0.01, 0.1), "blocks": (100.0, 5000.0), "honest_rate": (1e-4, 1e-3)}


def test_drawn_scenarios_lie_in_their_ranges() -> None:
    draws = np.random.default_rng(0)
    found = [drawn(PAPER, RANGES, draws) for _ in range(300)]
    for name, (low, high) in RANGES.items():
        values = [getattr(each, name) for each in found]
        assert low <= min(values) < 1.5 * low
        assert high / 1.5 < max(values) <= high
    middle = np.median([each.malicious_rate for each in found])
    assert 0.025 < middle < 0.04, "by logarithm"
    assert {replace(each, **{n: getattr(PAPER, n) for n in RANGES}) for each in found} == {PAPER}


def test_one_fleet_after_the_other_starts_anew() -> None:
    crowd = Crowd(PAPER, RANGES, 24, np.random.default_rng(0))
    before = list(crowd._scenarios)
    for turn in range(4):
        crowd.step(np.full(24, 3))
        renewed = crowd.renew()
        assert np.flatnonzero(renewed).tolist() == list(range(8 * (turn % 3), 8 * (turn % 3) + 8))
        interval = crowd.observe()[:, OBSERVATION.index("previous_interval")]
        assert ((interval == 0) == renewed).all()
    assert len({*before, *crowd._scenarios}) == 6


def test_without_ranges_nothing_is_renewed() -> None:
    crowd = Crowd(PAPER, {}, 10, np.random.default_rng(0))
    crowd.step(np.full(10, 3))
    assert not crowd.renew().any()
    assert (crowd.observe()[:, OBSERVATION.index("previous_interval")] > 0).all()


def test_a_node_whose_episode_is_over_starts_anew() -> None:
    crowd = Crowd(replace(PAPER, horizon=14), {}, 4, np.random.default_rng(0))
    step = crowd.step(np.array([0, 20, 0, 20]))  # intervals of 1 and 14
    assert step.finished.tolist() == [False, True, False, True]
    assert crowd._fleets[0].time.tolist() == [1, 0, 1, 0]


def test_a_restored_crowd_lives_on_as_the_one_saved() -> None:
    draws, others = np.random.default_rng(1), np.random.default_rng(2)
    crowd, other = Crowd(PAPER, RANGES, 16, draws), Crowd(PAPER, RANGES, 16, others)
    crowd.step(np.full(16, 3))
    crowd.renew()
    crowd.observe()
    other.restore(jax.tree.map(np.copy, crowd.trees()), crowd.facts())
    others.bit_generator.state = draws.bit_generator.state
    for each in (crowd, other):
        each.step(np.full(16, 9))
        each.renew()
    assert (crowd.observe() == other.observe()).all()
    assert crowd._scenarios == other._scenarios


@pytest.mark.parametrize("nodes", [7, 12])
def test_nodes_that_do_not_fill_fleets_are_refused(nodes: int) -> None:
    with pytest.raises(ValueError, match="eight"):
        Crowd(PAPER, RANGES, nodes, np.random.default_rng(0))
