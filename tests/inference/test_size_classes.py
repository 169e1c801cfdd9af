"""Holdings of nearly the same size share a filter, at an error that is known."""

import numpy as np
import pytest
from benchmarks.inference import FLEET
from benchmarks.mixed_log import mixed_log
from tests.inference.enumeration import Audit, log_of

from holdfast.inference.confidence import confidence
from holdfast.inference.fit import fit
from holdfast.inference.size_classes import MAX_RATIO, in_classes, size_classes
from holdfast.model.scenario import PAPER


def test_a_size_without_neighbours_stays_itself() -> None:
    sizes = np.array([1, 2, 1000, 1000, 5000, 7])
    assert size_classes(sizes).tolist() == sizes.tolist()
    many = np.arange(1, 3000)
    assert size_classes(many, 1.0).tolist() == many.tolist()


def test_no_size_is_farther_from_its_class_than_the_ratio_allows() -> None:
    sizes = np.unique(np.geomspace(1, 10**7, 3000).astype(int))
    classes = size_classes(sizes)
    assert len(np.unique(classes)) < 200
    assert (np.diff(classes) >= 0).all()
    off = np.maximum(classes / sizes, sizes / classes)
    assert off.max() <= MAX_RATIO**0.5 * 1.05, "and half a block of rounding"


def test_counted_damage_keeps_its_share_and_samples_their_number() -> None:
    audits = [Audit(7, 100, failed=True, damaged=50), Audit(7, 980, failed=False)]
    audits += [Audit(7, 100, failed=True, damaged=1)]
    scaled = in_classes(log_of(1000, audits), np.array([960]))
    assert scaled.blocks.tolist() == [960]
    assert scaled.damaged.tolist() == [48, -1, 1]
    assert scaled.sampled.tolist() == [100, 960, 100]


@pytest.mark.slow
def test_size_classes_change_the_figures_by_no_more_than_is_stated() -> None:
    """The bounds are those of docs/inference.md."""
    sizes = np.unique(np.geomspace(300, 600, 24).astype(int)).tolist()
    log = mixed_log(FLEET, sizes, 6)
    exact_fit, rough_fit = fit(log, PAPER, max_ratio=1.0), fit(log, PAPER)
    for name in exact_fit.hidden:
        exact, rough = exact_fit.parameters[name], rough_fit.parameters[name]
        assert abs(exact.value - rough.value) < 0.1 * (exact.high - exact.low), name
    exact_said = confidence(log, exact_fit, max_ratio=1.0)
    rough_said = confidence(log, exact_fit)
    assert np.abs(exact_said.at_most - rough_said.at_most).max() < 0.005
    assert np.abs(exact_said.damaged - rough_said.damaged).max() < 0.03
    assert rough_said.fleet_at_most == pytest.approx(exact_said.fleet_at_most, rel=0.1)
    assert abs(exact_said.miss_rate.value - rough_said.miss_rate.value) < 0.02
