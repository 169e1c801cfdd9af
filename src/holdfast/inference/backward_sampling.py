"""Hidden histories sampled from their posterior: filtered forwards, sampled backwards.

A history says how much damage was present at each audit, so which passed audits were misses.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from holdfast.inference.fixed_histories import sample_fixed_histories
from holdfast.inference.fixed_modes import FixedModeFilter
from holdfast.inference.forward_filter import NodeBatch, World
from holdfast.inference.growth_bands import SizeTable
from holdfast.inference.log import Log
from holdfast.inference.sampling import Histories
from holdfast.inference.turning_filter import filter_of
from holdfast.inference.turning_histories import sample_turning_histories

# Worlds are sampled together as long as they have no more than this many audits in all: the
# beliefs after each of them, a few KiB, are in memory.
MAX_AUDITS = 10_240


def sample_histories(
    worlds: Sequence[World],
    log: Log,
    batch: NodeBatch,
    table: SizeTable,
    count: int,
    rng: np.random.Generator,
) -> Iterator[Histories]:
    """Yield `count` histories of the batch's nodes in each world, given all their audits."""
    if worlds[0].scenario.drifts:
        for world in worlds:
            bayes = filter_of(world.scenario, batch.blocks, table, world.efficacy)
            yield sample_turning_histories(bayes, log, batch, count, rng)
        return
    fixed = FixedModeFilter(worlds[0].scenario, log, batch, table)
    together = max(1, MAX_AUDITS // max(1, sum(map(len, batch.steps))))
    for start in range(0, len(worlds), together):
        some = worlds[start : start + together]
        yield from sample_fixed_histories(fixed, some, count, rng)
