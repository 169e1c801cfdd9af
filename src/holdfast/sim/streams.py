"""Random numbers for a batch of nodes: one generator for all, or one per episode.

With one per episode, an episode gets the same random numbers whatever else runs beside it and
whichever policy decides. The single environment with the same seed runs the same episode.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray, IntArray


class Streams:
    """Like a NumPy generator, but every node has its own stream."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self._generators = generators

    @classmethod
    def of_episodes(cls, seed: int, episodes: Iterable[int]) -> "Streams":
        return cls([np.random.default_rng((seed, 1, episode)) for episode in episodes])

    def take(self, which: BoolArray) -> "Streams":
        indices = np.flatnonzero(which).tolist()
        return Streams([self._generators[index] for index in indices])

    def random(self, size: tuple[int, ...]) -> FloatArray:
        shape = size[1:]
        return np.array([generator.random(shape) for generator in self._generators])

    def binomial(self, n: IntArray, p: FloatArray) -> IntArray:
        trials = zip(self._generators, n.tolist(), p.tolist(), strict=True)
        return np.array([generator.binomial(m, q) for generator, m, q in trials], np.int64)


Rng = np.random.Generator | Streams
