"""Random numbers keyed by episode, unit of time and cause.

A draw depends on its key alone, not on what was drawn before it. So what happens to a node in a
unit of time is the same under every policy, at whatever times the policy audits. The numbers are
those of SplitMix64 (Steele, Lea and Flood, 2014): the episode's key is the seed, and the unit and
the cause are the position in its sequence.
"""

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.model.arrays import BoolArray, FloatArray, IntArray

UintArray = NDArray[np.uint64]

_INCREMENT = np.array(0x9E3779B97F4A7C15, np.uint64)
_FIRST_FACTOR = np.array(0xBF58476D1CE4E5B9, np.uint64)
_SECOND_FACTOR = np.array(0x94D049BB133111EB, np.uint64)
_SHIFTS = tuple(np.array(bits, np.uint64) for bits in (30, 27, 31, 11))
_CAUSES_PER_UNIT = np.array(16, np.uint64)


class Cause(IntEnum):
    """What a draw decides. The first five are drawn once, when the episode starts."""

    TYPE = 1
    HONEST_RATE = 2
    MALICIOUS_RATE = 3
    FIRST_BURST = 4
    FIRST_LOAD = 5
    STRIKES = 6
    COLLISIONS = 7
    AUDIT = 8
    RESPONSE = 9
    TURN = 10
    BURST = 11
    LOAD = 12


START, EVERY_UNIT = np.split(np.array(tuple(Cause), np.uint64), [5])
STEADY = EVERY_UNIT[:4]  # all that a node needs whose rate and load don't change


class KeyedDraws:
    """The random numbers of a batch of episodes."""

    def __init__(self, keys: UintArray) -> None:
        self.keys = keys

    @classmethod
    def of_episodes(cls, seed: int, episodes: Iterable[int]) -> "KeyedDraws":
        base = np.random.SeedSequence((seed, 1)).generate_state(1, np.uint64)
        numbers = np.fromiter(episodes, np.uint64) + np.uint64(1)
        return cls(_mix(np.asarray(base + _INCREMENT * numbers, np.uint64)))

    def take(self, which: IntArray | BoolArray | slice) -> "KeyedDraws":
        return KeyedDraws(self.keys[which])

    def start(self) -> FloatArray:
        """Return a row per episode with a uniform number for each cause in `START`."""
        return _uniform(self.keys[:, np.newaxis], START)

    def uniform(self, unit: ArrayLike, cause: Cause) -> FloatArray:
        """Return a number in [0, 1) for each episode, at one unit of time or each at its own."""
        return _uniform(self.keys, _position(unit, cause))

    def series(self, begin: int, units: int, causes: UintArray) -> FloatArray:
        """Return the numbers of a single episode: a row for each cause, a column for each unit."""
        times = np.arange(begin, begin + units, dtype=np.uint64)
        return _uniform(self.keys, _position(times, causes[:, np.newaxis]))


def sample_key(rng: np.random.Generator) -> UintArray:
    """Return the key of a new episode, as an array of one."""
    return np.array([rng.bit_generator.random_raw()], np.uint64)


def _position(unit: ArrayLike, cause: ArrayLike) -> UintArray:
    """Return the place in an episode's sequence, as an array: these wrap around in silence."""
    units = np.atleast_1d(np.asarray(unit, np.uint64))
    return units * _CAUSES_PER_UNIT + np.asarray(cause, np.uint64)


def _uniform(keys: UintArray, position: UintArray) -> FloatArray:
    mixed = _mix(keys + position * _INCREMENT)
    return np.asarray((mixed >> _SHIFTS[3]).astype(np.float64) * 2.0**-53, np.float64)


def _mix(number: UintArray) -> UintArray:
    mixed = (number ^ (number >> _SHIFTS[0])) * _FIRST_FACTOR
    mixed = (mixed ^ (mixed >> _SHIFTS[1])) * _SECOND_FACTOR
    return np.asarray(mixed ^ (mixed >> _SHIFTS[2]), np.uint64)


Rng = np.random.Generator | KeyedDraws
