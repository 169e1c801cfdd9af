"""Randomness for a batch of nodes: one generator for all, or one for each episode.

With one each, an episode meets the same draws whatever else runs beside it and whichever policy
decides, and the single environment seeded alike lives through the same episode.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray, IntArray


class Streams:
    """Draws like a NumPy generator, each node from its own stream."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self._generators = generators

    @classmethod
    def of_episodes(cls, seed: int, episodes: Iterable[int]) -> "Streams":
        return cls([np.random.default_rng((seed, 1, episode)) for episode in episodes])

    def take(self, which: BoolArray) -> "Streams":
        chosen = np.flatnonzero(which).tolist()
        return Streams([self._generators[index] for index in chosen])

    def random(self, size: tuple[int, ...]) -> FloatArray:
        each = size[1:]
        return np.array([generator.random(each) for generator in self._generators])

    def binomial(self, n: IntArray, p: FloatArray) -> IntArray:
        trials = zip(self._generators, n.tolist(), p.tolist(), strict=True)
        return np.array([generator.binomial(m, q) for generator, m, q in trials], np.int64)


Source = np.random.Generator | Streams
