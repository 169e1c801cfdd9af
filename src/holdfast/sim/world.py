"""Lookup tables of a scenario: what every action costs, and how likely it detects damage."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.scenario import Scenario

MAX_ENTRIES = 10_000_000  # of the detection table: 80 MB


@dataclass(frozen=True, eq=False)
class World:
    """The tables of a scenario; those by action are indexed like the grid of actions."""

    scenario: Scenario
    interval: IntArray
    gas: FloatArray
    compute: FloatArray  # C_comp of Eq. reward: p / p_max
    row: IntArray  # which row of `detection` belongs to the action
    # Probability of detection by ratio and corrupted blocks. The last column is all 1 and stands
    # for all larger numbers.
    detection: FloatArray

    @property
    def max_listed(self) -> int:
        """The largest number of corrupted blocks with its own column."""
        return int(self.detection.shape[1]) - 1


@lru_cache(maxsize=16)
def world_of(scenario: Scenario) -> World:
    sampled = scenario.samples_of[: len(GRID.ratios)]
    # With c s > 40 n a miss has a probability below exp(-40), and 1 - exp(-40) is 1.0.
    max_corrupted = min(scenario.blocks, 1 + 40 * scenario.blocks // int(sampled.min()))
    if max_corrupted * len(sampled) > MAX_ENTRIES:
        raise InputError(
            f"scenario field sample_cap: {sampled.min()} of {scenario.blocks} blocks are too few"
            " to simulate; raise it, or lower the field blocks"
        )
    corrupted = np.arange(max_corrupted + 1)
    return World(
        scenario=scenario,
        interval=GRID.interval_of,
        gas=scenario.gas_of,
        compute=GRID.ratio_of / max(GRID.ratios),
        row=np.arange(GRID.size) % len(GRID.ratios),
        detection=np.array([scenario.detection_probability(corrupted, s) for s in sampled]),
    )
