"""Before anything is trained, planning says which ceilings a world allows, and at which prices."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.learn.feasibility import HASTE, LEVELS, Prospect, prospect
from holdfast.model.scenario import PAPER
from holdfast.policy import dial
from holdfast.policy.lagrangian import Ceilings

WORLD = replace(PAPER, name="small", blocks=100, horizon=100, honest_rate=0.003)


@pytest.fixture(scope="module")
def ahead() -> Prospect:
    return prospect(WORLD)


def test_tighter_ceilings_have_higher_prices(ahead: Prospect) -> None:
    assert (np.diff(ahead.rho) > 0).all()
    assert (np.diff(ahead.miss_price) <= 0).all()
    assert ahead.miss_price[-1] > 0


def test_a_ceiling_is_allowed_if_a_plan_keeps_it(ahead: Prospect) -> None:
    loose, tight = float(ahead.rho[-1]), float(ahead.rho[0]) / 2
    assert ahead.allows(Ceilings(loose))
    assert not ahead.allows(Ceilings(tight))
    assert not ahead.allows(Ceilings(loose, 0.5)), "no audit comes before a unit has passed"


def test_training_draws_around_all_ceilings_that_get_dials(ahead: Prospect) -> None:
    wanted = Ceilings(0.9, 3.0)
    targets, dials = ahead.targets(wanted), ahead.dials(wanted)
    assert targets[0] == wanted
    assert len(targets) == 1 + LEVELS * len(HASTE)
    for each in targets:
        assert each.latency is not None
        assert dials.rho[0] < each.miss_rate < dials.rho[1]
        assert dials.latency[0] < each.latency < dials.latency[1]
    for (low, high), (least, most) in zip((dials.rho, dials.latency), dial.RANGES[2:], strict=True):
        assert least <= low < high <= most


def test_the_prices_of_the_plans_lie_well_within_those_of_training(ahead: Prospect) -> None:
    dials = ahead.dials(Ceilings(0.5))
    low, high = dials.miss_price
    at_five_per_cent = ahead.miss_price / (0.05 / ahead.rho) ** dials.steepness
    assert (at_five_per_cent > 2 * low).all()
    assert (at_five_per_cent < high / 2).all()
