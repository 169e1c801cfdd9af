"""Differences on matched episodes: what both meet cancels, and many comparisons are corrected."""

import math

import numpy as np
import pytest

from holdfast.model.scenario import PAPER
from holdfast.policy.registry import policy_named
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import measure
from holdfast.sim.paired import EpisodeSums, compare, episode_sums, holm


def test_holm_corrects_the_smallest_most() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_difference_is_that_of_the_measures() -> None:
    tallies = {
        name: evaluate(policy_named(name, PAPER), PAPER, episodes=200, seed=0)
        for name in ("constant:7,0.20", "constant:7,0.10")
    }
    weekly, small = tallies.values()
    compared = compare(episode_sums(weekly), {"small": episode_sums(small)})["small"]
    for name, difference in compared.items():
        expected = getattr(measure(small), name).value - getattr(measure(weekly), name).value
        assert difference.estimate.value == pytest.approx(expected)
        assert difference.estimate.low <= expected <= difference.estimate.high
    assert compared["gas"].probability_of_improvement == 1.0
    assert compared["miss_rate"].probability_of_improvement == 0.0
    assert compared["gas"].p_value <= compared["gas"].p_holm < 0.05


def test_matched_episodes_give_narrower_intervals() -> None:
    malicious_share = 1.0
    sums = [
        episode_sums(
            evaluate(
                policy_named(name, PAPER),
                PAPER,
                episodes=300,
                seed=seed,
                malicious_share=malicious_share,
            )
        )
        for name, seed in (("constant:7,0.20", 0), ("constant:14,0.20", 0), ("constant:14,0.20", 1))
    ]
    widths = [
        estimate.high - estimate.low
        for estimate in (
            compare(sums[0], {"other": other})["other"]["exposure"].estimate for other in sums[1:]
        )
    ]
    assert widths[0] < 0.8 * widths[1]


def test_equal_policies_do_not_differ() -> None:
    rng = np.random.default_rng(0)
    some = EpisodeSums(np.arange(50) < 10, rng.random((50, 6)))
    for difference in compare(some, {"same": some})["same"].values():
        assert (difference.estimate.low, difference.estimate.high) == (0.0, 0.0)
        assert (difference.probability_of_improvement, difference.p_holm) == (0.5, 1.0)


def test_false_alarms_are_as_rare_as_stated() -> None:
    """Policies that differ by luck alone: 5 % of the intervals leave zero out, not more."""
    rng = np.random.default_rng(3)
    outside = 0
    for _ in range(100):
        world = rng.random((80, 6)) + 1
        left, right = (world + rng.normal(scale=0.1, size=(80, 6)) for _ in range(2))
        types = np.arange(80) < 24
        gas = compare(EpisodeSums(types, left), {"b": EpisodeSums(types, right)})["b"]["gas"]
        outside += not gas.estimate.low <= 0 <= gas.estimate.high
    assert outside <= 12


def test_what_never_happened_has_no_difference() -> None:
    nothing = EpisodeSums(np.zeros(5, np.bool_), np.zeros((5, 6)))
    miss_rate = compare(nothing, {"same": nothing})["same"]["miss_rate"]
    assert math.isnan(miss_rate.estimate.value)
    assert math.isnan(miss_rate.p_holm)
