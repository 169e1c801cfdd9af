"""Before anything is trained, planning says which ceilings a world allows, and at which prices."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.learn.feasibility import LATENCY_SHARES, LEVELS, FeasibleRange, feasible_range
from holdfast.model.scenario import PAPER
from holdfast.policy import dial
from holdfast.policy.lagrangian import Ceilings

WORLD = replace(PAPER, name="small", blocks=100, horizon=100, honest_rate=0.003)


@pytest.fixture(scope="module")
def feasible() -> FeasibleRange:
    return feasible_range(WORLD)


@pytest.mark.slow
def test_tighter_ceilings_have_higher_prices(feasible: FeasibleRange) -> None:
    assert (np.diff(feasible.rho) > 0).all()
    assert (np.diff(feasible.miss_price) <= 0).all()
    assert feasible.miss_price[-1] > 0


@pytest.mark.slow
def test_a_ceiling_is_allowed_if_a_plan_keeps_it(feasible: FeasibleRange) -> None:
    loose, tight = float(feasible.rho[-1]), float(feasible.rho[0]) / 2
    assert feasible.allows(Ceilings(loose))
    assert not feasible.allows(Ceilings(tight))
    assert not feasible.allows(Ceilings(loose, 0.5)), "no audit comes before a unit has passed"


def test_training_draws_around_all_ceilings_that_get_dials(feasible: FeasibleRange) -> None:
    wanted = Ceilings(0.9, 3.0)
    targets, dials = feasible.targets(wanted), feasible.dials(wanted)
    assert targets[0] == wanted
    assert len(targets) == 1 + LEVELS * len(LATENCY_SHARES)
    for ceilings in targets:
        assert ceilings.latency is not None
        assert dials.rho[0] < ceilings.miss_rate < dials.rho[1]
        assert dials.latency[0] < ceilings.latency < dials.latency[1]
    for (low, high), (least, most) in zip((dials.rho, dials.latency), dial.RANGES[2:], strict=True):
        assert least <= low < high <= most


def test_the_prices_of_the_plans_lie_well_within_those_of_training(feasible: FeasibleRange) -> None:
    dials = feasible.dials(Ceilings(0.5))
    low, high = dials.miss_price
    at_five_per_cent = feasible.miss_price / (0.05 / feasible.rho) ** dials.steepness
    assert (at_five_per_cent > 2 * low).all()
    assert (at_five_per_cent < high / 2).all()
