"""The tables of a world say what its scenario computes."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.scenario import FIELD, SCENARIOS
from holdfast.sim.world import world_of


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_table_of_detection_holds_for_every_corruption(name: str) -> None:
    scenario = SCENARIOS[name]
    world = world_of(scenario)
    corrupted = np.unique(np.geomspace(1, scenario.blocks, 200).astype(np.int64))
    for a in range(GRID.size):
        looked_up = world.detection[world.row[a], np.minimum(corrupted, world.max_listed)]
        computed = scenario.detection_probability(corrupted, scenario.samples_of[a])
        np.testing.assert_array_equal(looked_up, computed)
    assert (world.detection[:, 0] == 0).all(), "an intact node never fails"


def test_a_world_too_large_for_its_table_is_refused() -> None:
    with pytest.raises(InputError, match="sample_cap"):
        world_of(replace(FIELD, blocks=10_000_000, sample_cap=50))
    assert world_of(replace(FIELD, blocks=10_000_000)).max_listed < 100_000
