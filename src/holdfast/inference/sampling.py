"""What is sampled from a posterior: an index by its weights, and the histories of nodes."""

from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Histories:
    """Hidden histories of a batch of nodes in one world."""

    misses: IntArray  # (histories, nodes)
    damage: FloatArray  # (nodes, cells): distribution of the damage now


def sample_index(weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return an index into the last axis, sampled by the weights; 0 if all are 0."""
    cumulative = np.cumsum(weights, axis=-1)
    thresholds = rng.random(cumulative.shape[:-1]) * cumulative[..., -1]
    return np.asarray(
        (cumulative <= thresholds[..., np.newaxis]).sum(axis=-1) % weights.shape[-1], np.int64
    )
