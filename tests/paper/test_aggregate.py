"""Trainings of many folders are one table, and none is counted twice."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import InputError, NotFoundError
from holdfast.paper.aggregate import aggregate, as_csv, as_json
from holdfast.policy import checkpoint
from holdfast.policy.shipped import shipped_folder

SHIPPED = checkpoint.load(shipped_folder("ppo-lagrangian", "paper"))


def write(
    folder: Path, seed: int, gas: float | None, *, rho: float = 0.05, shift: float = 0
) -> None:
    """Write the checkpoint of a training that ended with this gas, or kept no ceilings."""
    evaluation = (
        {"refused": "it keeps no ceilings"}
        if gas is None
        else {name: {"value": gas} for name in ("gas", "latency", "miss_rate")}
    )
    manifest = replace(SHIPPED.manifest, seed=seed, rho=rho, evaluation=evaluation)
    weights = {name: array + shift for name, array in SHIPPED.parameters.items()}
    checkpoint.save(folder, manifest, weights)


def test_trainings_that_differ_in_the_seed_alone_are_one_row(tmp_path: Path) -> None:
    for seed, gas in enumerate((1.0, 2.0, 3.0, None)):
        write(tmp_path / "a" / str(seed), seed, gas)
    write(tmp_path / "b" / "deep" / "down", 0, 7.0, rho=0.1)
    (tmp_path / "b" / "begun").mkdir()
    (tmp_path / "b" / "begun" / "run.json").write_text("{}")
    result = aggregate([tmp_path / "a", tmp_path / "b", tmp_path])
    first, second = result.groups
    assert (first.rho, first.seeds, first.refused) == (0.05, (0, 1, 2, 3), 1)
    assert first.measures["gas"].mean == 2.0
    assert (second.rho, second.seeds, second.measures["gas"].mean) == (0.1, (0,), 7.0)
    assert result.unfinished == (tmp_path / "b" / "begun",)
    header, *rows = as_csv(result.groups).splitlines()
    assert [row.count(",") for row in rows] == [header.count(",")] * 2
    assert as_json(result)["groups"][0]["by_seed"]["gas"] == [1.0, 2.0, 3.0, None]


def test_a_copy_counts_once_and_other_weights_of_one_training_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", 0, 1.0)
    write(tmp_path / "copy", 0, 1.0)
    (group,) = aggregate([tmp_path]).groups
    assert group.seeds == (0,)
    write(tmp_path / "other", 0, 1.0, shift=0.5)
    with pytest.raises(InputError, match="the same training with other weights"):
        aggregate([tmp_path])


def test_folders_without_a_training_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no finished training"):
        aggregate([tmp_path])
    with pytest.raises(NotFoundError, match="nowhere is not a folder"):
        aggregate([tmp_path / "nowhere"])
