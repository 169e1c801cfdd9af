"""Growth matrices that have only what is reached are those of the plain filter."""

import numpy as np
import pytest
from benchmarks.inference import FLEET

from holdfast.inference.growth_bands import table_of
from holdfast.policy.count_bins import growth


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
    assert first == pytest.approx(dense[0, : len(first)], abs=1e-12)
    assert not dense[0, len(first) :].any()


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


def test_bands_that_are_computed_together_are_those_computed_alone() -> None:
    requests = [(0.001 * k, 16 * (k % 3), 20 + 7 * k) for k in range(1, 12)]
    together = table_of(FLEET, 5000).growth_many(requests)
    for band, request in zip(together, requests, strict=True):
        alone = table_of(FLEET, 5000).growth(*request)
        assert (band.row, band.column) == (alone.row, alone.column)
        assert band.matrix == pytest.approx(alone.matrix, abs=1e-12)
