"""A scenario made ready to run: what each action costs and finds, looked up instead of computed."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.scenario import Scenario

MOST_ENTRIES = 10_000_000  # of the table of detection: 80 MB


@dataclass(frozen=True, eq=False)
class World:
    """The tables of a scenario; those by action are indexed like the grid of actions."""

    scenario: Scenario
    interval: IntArray
    gas: FloatArray
    compute: FloatArray  # C_comp of Eq. reward: p / p_max
    remembered: FloatArray  # share of the load that outlasts the interval
    row: IntArray  # which row of `detection` belongs to the action
    # Probability of detection by ratio and corrupted blocks; the last column, where every entry
    # is 1, stands for all larger numbers.
    detection: FloatArray

    @property
    def most_listed(self) -> int:
        """The largest number of corrupted blocks with a column of its own."""
        return int(self.detection.shape[1]) - 1


@lru_cache(maxsize=16)
def world_of(scenario: Scenario) -> World:
    sampled = scenario.samples_of[: len(GRID.ratios)]
    # With c s > 40 n a miss has a probability below exp(-40), and 1 - exp(-40) is 1.0.
    most = min(scenario.blocks, 1 + 40 * scenario.blocks // int(sampled.min()))
    if most * len(sampled) > MOST_ENTRIES:
        raise InputError(
            f"scenario field sample_cap: {sampled.min()} of {scenario.blocks} blocks are too few"
            " to simulate; raise it, or lower the field blocks"
        )
    corrupted = np.arange(most + 1)
    return World(
        scenario=scenario,
        interval=GRID.interval_of,
        gas=scenario.gas_of,
        compute=GRID.ratio_of / max(GRID.ratios),
        remembered=np.power(scenario.load_memory, GRID.interval_of, dtype=np.float64),
        row=np.arange(GRID.size) % len(GRID.ratios),
        detection=np.array([scenario.detection_probability(corrupted, s) for s in sampled]),
    )
