"""Modes spell out a scenario's hidden behaviour."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.model.scenario import DRIFT, FIELD, PAPER, Scenario
from holdfast.policy.hidden_states import modes_of


@pytest.mark.parametrize(
    "world", [PAPER, DRIFT, FIELD, replace(DRIFT, honest_spread=3.0, malicious_spread=2.0)]
)
def test_probabilities_add_up_and_the_prior_has_the_share(world: Scenario) -> None:
    modes = modes_of(world)
    assert modes.prior.sum() == pytest.approx(1)
    assert modes.prior[modes.malicious].sum() == pytest.approx(world.malicious_share)
    assert np.allclose(modes.turning.sum(axis=1), 1)
    assert modes.fixed == np.allclose(modes.turning, np.eye(len(modes.prior)))


def test_bursts_settle_at_their_share_and_quicken_honest_nodes_alone() -> None:
    modes = modes_of(DRIFT)
    bursting = modes.rate == DRIFT.honest_rate * DRIFT.burst_factor
    later = modes.prior_within(malicious=False) @ np.linalg.matrix_power(modes.turning, 3)
    honest = ~modes.malicious
    assert bursting.sum() == 1
    assert later[bursting].sum() / later[honest].sum() == pytest.approx(DRIFT.burst_share)
    assert set(modes.rate[modes.malicious]) == {DRIFT.malicious_rate}
    assert set(modes.bold_rate / modes.rate) == {1.0, DRIFT.quiet_factor}


def test_a_range_of_rates_is_covered_evenly_on_a_logarithmic_scale() -> None:
    modes = modes_of(FIELD)
    honest = np.log(modes.rate[~modes.malicious] / FIELD.honest_rate) / np.log(FIELD.honest_spread)
    assert np.allclose(np.diff(honest), 2 / 7)
    assert np.mean(honest) == pytest.approx(0)
