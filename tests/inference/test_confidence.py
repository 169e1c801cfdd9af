"""Hidden figures are reported with an interval that holds."""

import numpy as np
import pytest
from benchmarks.inference import FLEET, covered
from tests.inference.enumeration import Audit, log_of
from tests.support.fits import fitted

from holdfast.inference.confidence import confidence, upper


@pytest.mark.slow
def test_intervals_and_statements_hold_over_simulated_fleets() -> None:
    held = covered(FLEET, "constant:14,0.20", fleets=5, nodes=40)
    assert held["miss_rate"] >= 4 / 5
    assert held["miss_rate_width"] < 0.1
    assert held["holding_damage"] >= 0.9


@pytest.mark.slow
def test_a_holding_just_repaired_is_intact_and_grows_doubtful_with_time() -> None:
    audits = [Audit(7, 100, failed=True, damaged=2)]
    results = [confidence(log_of(1000, audits, elapsed), fitted(0.1)) for elapsed in (0, 7, 60)]
    assert results[0].at_most.tolist() == [0.0]
    assert results[0].damaged.tolist() == [0.0]
    assert results[0].at_most[0] < results[1].at_most[0] < results[2].at_most[0]
    assert results[0].damaged[0] < results[1].damaged[0] < results[2].damaged[0]


def test_a_harder_look_allows_less_damage() -> None:
    soft, hard = (
        confidence(log_of(1000, [Audit(14, sampled, failed=False)]), fitted(0.1)).at_most[0]
        for sampled in (10, 300)
    )
    assert hard < soft


def test_where_no_history_has_a_miss_the_rate_may_be_zero() -> None:
    audits = [Audit(1, 1000, failed=True, damaged=900)] * 3
    rate = confidence(log_of(1000, audits), fitted(0.1)).miss_rate
    assert rate.low == 0
    assert rate.value == pytest.approx(0.5 / 4)


def test_equal_seeds_give_equal_confidence() -> None:
    log = log_of(1000, [Audit(7, 100, failed=False)] * 3)
    one, two = (confidence(log, fitted(0.1), seed=3) for _ in range(2))
    assert one.miss_rate == two.miss_rate
    assert np.array_equal(one.at_most, two.at_most)


def test_a_holding_never_audited_may_be_damaged_by_now() -> None:
    assert confidence(log_of(1000, [], elapsed=3), fitted(0.1)).at_most[0] > 0


def test_the_bound_is_the_highest_count_of_its_cell() -> None:
    cells = np.array([0, 1, 2, 5, 9])
    count = np.array([[0.96, 0.04, 0, 0, 0], [0.5, 0.2, 0.2, 0.1, 0], [0, 0, 0, 0, 1.0]])
    assert upper(cells, count).tolist() == [0, 8, 9]
