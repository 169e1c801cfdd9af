"""The filter that computes only what is reached gives what the plain one gives."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.inference import FLEET
from benchmarks.mixed_log import mixed_log

from holdfast.inference.banded_filter import BandedFilter, filter_of, table_of
from holdfast.inference.forward_filter import make_batches, run_filter
from holdfast.model.scenario import DRIFT, Scenario
from holdfast.policy.count_bins import growth
from holdfast.policy.filter import BayesFilter

SPREAD = replace(FLEET, honest_spread=3.0, malicious_spread=2.0)
BOLD = replace(FLEET, quiet_after=20, quiet_factor=3.0)


def plain(bayes: BandedFilter) -> BayesFilter:
    return BayesFilter(bayes.scenario, bayes.modes, bayes.cells, bayes.efficacy)


@pytest.mark.parametrize("blocks", [1, 3, 60, 1000])
@pytest.mark.parametrize("loss", [0.0, 1e-7, 0.003, 0.2, 0.97, 1.0])
def test_bands_are_the_rows_of_the_growth_matrix(blocks: int, loss: float) -> None:
    table = table_of(FLEET, blocks)
    band = table.growth(loss, 0, len(table.cells))
    dense = np.zeros((len(table.cells), len(table.cells)))
    dense[:, band.columns] = band.matrix
    off = np.cumsum(dense - growth(table.cells, loss), axis=1)
    assert np.abs(off).max() < (1e-9 if blocks < 100 else 0.01)
    assert dense.sum(axis=1) == pytest.approx(1.0)
    means = table.cells + (blocks - table.cells) * loss
    assert dense @ table.cells == pytest.approx(means, rel=1e-6, abs=1e-6)
    (first,) = table.growth_from_intact(np.array([loss]))
    assert first == pytest.approx(dense[0], abs=1e-12)


@pytest.mark.parametrize("blocks", [10_000, 3_000_000])
def test_points_far_apart_keep_mean_and_spread(blocks: int) -> None:
    table = table_of(FLEET, blocks)
    first, end = len(table.cells) // 2, len(table.cells) // 2 + 16
    band = table.growth_rows(0.1, first, end)
    exact = growth(table.cells, 0.1)[first:end, band.columns] if blocks < 100_000 else None
    cells, counts = table.cells[band.columns], table.cells[first:end]
    mean = band.matrix @ cells
    assert mean == pytest.approx(counts + (blocks - counts) * 0.1, rel=1e-9)
    spread = np.sqrt(band.matrix @ cells.astype(float) ** 2 - mean**2)
    if exact is not None:
        assert spread == pytest.approx(
            np.sqrt(exact @ cells.astype(float) ** 2 - mean**2), rel=0.01
        )
    else:
        assert (spread > np.sqrt((blocks - counts) * 0.09)).all(), "cells only add to it"


def test_rows_that_are_added_are_those_of_the_whole() -> None:
    table, other = table_of(FLEET, 5000), table_of(FLEET, 5000)
    for first, end in ((60, 70), (100, 130), (3, 9)):
        band = table.growth(0.05, first, end)
        assert band.row <= first
        assert band.end >= end
    whole = other.growth_rows(0.05, band.row, band.end)
    assert band.column == whole.column
    assert band.matrix == pytest.approx(whole.matrix, abs=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "efficacy"), [(FLEET, 1.0), (FLEET, 0.7), (SPREAD, 1.0), (BOLD, 1.0), (DRIFT, 1.0)]
)
def test_beliefs_and_likelihoods_are_those_of_the_plain_filter(
    world: Scenario, efficacy: float
) -> None:
    log = mixed_log(FLEET, [500] * 12, 6)
    (batch,) = make_batches(log)
    banded = filter_of(world, 500, efficacy)
    ours, theirs = (run_filter(bayes, log, batch) for bayes in (banded, plain(banded)))
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, abs=0.01)
    later = np.full(len(batch.nodes), 9)
    counts = (
        bayes.count(bayes.predict(belief, later))
        for bayes, belief in ((banded, ours), (plain(banded), theirs))
    )
    ours_now, theirs_now = counts
    assert np.abs(ours_now.cumsum(axis=1) - theirs_now.cumsum(axis=1)).max() < 1e-3


def test_a_filter_of_one_mode_gives_the_likelihood_in_that_mode() -> None:
    log = mixed_log(FLEET, [300] * 4, 5)
    (batch,) = make_batches(log)
    bayes = filter_of(FLEET, 300)
    in_mode = [run_filter(one, log, batch).log_likelihood for _, one in bayes.by_mode()]
    joint = np.log(bayes.modes.prior)[:, np.newaxis] + np.array(in_mode)
    together = run_filter(bayes, log, batch).log_likelihood
    assert np.logaddexp.reduce(joint, axis=0) == pytest.approx(together, abs=1e-9)
