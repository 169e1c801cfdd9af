"""Ceilings on ratios are met by the cheapest mixture of plans, or refused."""

from collections.abc import Callable

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.model.arrays import FloatArray
from holdfast.policy.lagrangian import Ceilings, Column, cheapest_mixture, phases

# Totals of an episode: gas, misses, encounters, waiting, detections.
LAX = np.array([1.0, 10.0, 100.0, 900.0, 90.0])  # miss rate 0.10, latency 10
STRICT = np.array([5.0, 2.0, 100.0, 980.0, 98.0])  # 0.02, 10
BUSY = np.array([9.0, 20.0, 400.0, 760.0, 380.0])  # 0.05, 2


def solver(*columns: FloatArray) -> Callable[[FloatArray], Column[str]]:
    """Return a planner that knows only these plans."""

    def solve(prices: FloatArray) -> Column[str]:
        best = min(columns, key=lambda totals: float(totals @ prices))
        return Column(f"gas {best[0]:g}", best)

    return solve


def test_two_plans_are_mixed_so_that_the_pooled_ratio_meets_its_ceiling() -> None:
    mixture = cheapest_mixture(solver(LAX, STRICT), Ceilings(0.05), [])
    assert dict(zip(mixture.plans, mixture.shares, strict=True)) == pytest.approx(
        {"gas 1": 3 / 8, "gas 5": 5 / 8}
    )
    assert mixture.totals[1] / mixture.totals[2] == pytest.approx(0.05)
    # At the right price both plans cost the same, or one of them would not be mixed.
    prices = Ceilings(0.05).prices(mixture.multipliers)
    assert LAX @ prices == pytest.approx(STRICT @ prices)


def test_a_ceiling_on_latency_brings_in_a_third_plan() -> None:
    mixture = cheapest_mixture(solver(LAX, STRICT, BUSY), Ceilings(0.04, 5.0), [])
    assert len(mixture.plans) == 3
    assert Ceilings(0.04, 5.0).ratios(mixture.totals) == pytest.approx([1, 1])


def test_a_ceiling_that_binds_nothing_has_no_price() -> None:
    mixture = cheapest_mixture(solver(LAX, STRICT), Ceilings(0.2, 50.0), [])
    assert mixture.plans == ["gas 1"]
    assert mixture.multipliers == pytest.approx([0, 0])


def test_a_ceiling_out_of_reach_is_refused_with_the_lowest_rate_met() -> None:
    with pytest.raises(InputError, match=r"miss rate of 0\.01.*lowest miss rate.*0\.02"):
        cheapest_mixture(solver(LAX, STRICT), Ceilings(0.01), [])


@pytest.mark.parametrize(("rho", "latency"), [(0.0, None), (1.0, None), (0.05, 0.0)])
def test_senseless_ceilings_are_refused(rho: float, latency: float | None) -> None:
    with pytest.raises(InputError):
        Ceilings(rho, latency)


def test_phases_hold_a_share_in_every_stretch_of_a_batch() -> None:
    chosen = phases(10_000) < 0.37
    stretches = chosen.reshape(100, 100).mean(axis=1)
    assert np.abs(stretches - 0.37).max() < 0.03
