"""Draws depend on their key alone, and are as random as SplitMix64."""

import numpy as np

from holdfast.sim import draws
from holdfast.sim.draws import START, Cause, KeyedDraws, sample_key


def test_the_sequence_is_that_of_splitmix64() -> None:
    """The first outputs for the seed 1234567, as published with the algorithm."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    position = np.arange(1, 5, dtype=np.uint64)
    mixed = draws._mix(np.array([1234567], np.uint64) + position * draws._INCREMENT)
    assert mixed.tolist() == known


def test_a_draw_depends_on_episode_unit_and_cause_alone() -> None:
    together = KeyedDraws.of_episodes(3, range(10))
    times = np.arange(10) * 7
    numbers = together.uniform(times, Cause.STRIKES)
    for episode in range(10):
        alone = KeyedDraws.of_episodes(3, [episode])
        assert alone.uniform(times[episode], Cause.STRIKES) == numbers[episode]
        series = alone.series(0, 100, np.array([Cause.STRIKES], np.uint64))
        assert series[0, times[episode]] == numbers[episode]
    others = [
        KeyedDraws.of_episodes(4, range(10)).uniform(times, Cause.STRIKES),
        together.uniform(times + 1, Cause.STRIKES),
        together.uniform(times, Cause.AUDIT),
    ]
    assert not any((other == numbers).any() for other in others)


def test_draws_are_uniform_and_uncorrelated() -> None:
    some = KeyedDraws.of_episodes(0, range(2000))
    by_unit = np.stack([some.uniform(unit, Cause.STRIKES) for unit in range(40)])
    by_cause = np.stack([some.uniform(0, cause) for cause in Cause])
    for numbers in (by_unit, by_cause):
        assert np.abs(numbers.mean(axis=1) - 0.5).max() < 4.5 * np.sqrt(1 / 12 / 2000)
        others = np.asarray(np.corrcoef(numbers)) - np.eye(len(numbers))
        assert np.abs(others).max() < 4.5 / np.sqrt(2000)
    neighbours = np.corrcoef(by_unit[:, :-1].ravel(), by_unit[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 4.5 / np.sqrt(40 * 2000)


def test_the_causes_of_the_start_are_causes_of_their_own() -> None:
    assert [Cause(int(number)).name for number in START] == [
        "TYPE",
        "HONEST_RATE",
        "MALICIOUS_RATE",
        "FIRST_BURST",
        "FIRST_LOAD",
    ]


def test_each_reset_has_a_key_of_its_own() -> None:
    rng = np.random.default_rng(0)
    assert sample_key(rng) != sample_key(rng)
