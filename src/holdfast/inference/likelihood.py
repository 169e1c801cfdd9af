"""The likelihood of a log in several worlds at once, whether nodes keep their mode or not."""

from collections.abc import Sequence

import numpy as np

from holdfast.inference.fixed_modes import FixedModeFilter, run_modes
from holdfast.inference.forward_filter import NodeBatch, World, run_filter
from holdfast.inference.growth_bands import SizeTable
from holdfast.inference.log import Log
from holdfast.inference.turning_filter import filter_of
from holdfast.model.arrays import FloatArray


def log_likelihoods(
    worlds: Sequence[World],
    log: Log,
    batch: NodeBatch,
    table: SizeTable,
    *,
    blur: float = 0.0,
) -> FloatArray:
    """Return the log likelihood of each node of a batch in each world: (worlds, nodes).

    With a blur, the logarithm of a count has this standard error.
    """
    if worlds[0].scenario.drifts:
        filters = (
            filter_of(world.scenario, batch.blocks, table, world.efficacy) for world in worlds
        )
        return np.stack(
            [run_filter(bayes, log, batch, blur=blur).log_likelihood for bayes in filters]
        )
    runs = run_modes(FixedModeFilter(worlds[0].scenario, log, batch, table, blur), worlds)
    return np.asarray(np.logaddexp.reduce([run.log_joint for run in runs], axis=0), np.float64)
