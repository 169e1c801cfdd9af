"""Results hold every seed, survive the way through a file, and refuse what is no result."""

import csv
import json
from pathlib import Path

import pytest

from holdfast.errors import InputError, MalformedError
from holdfast.paper.experiments import EXPERIMENTS, Effort
from holdfast.paper.published import DECOMPOSITION, MAIN
from holdfast.paper.result import MEASURES, SHIPPED, Result, gather, read_result

SEEDS = 5


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_seed_is_left_out(results: dict[str, Result], name: str) -> None:
    for row in results[name].rows:
        assert len(row.out_of_reach) == (SEEDS if row.trained else 1)
        for measure in MEASURES:
            assert len(row.measures[measure].by_seed) == len(row.out_of_reach)


def test_the_papers_figures_stand_beside_ours(results: dict[str, Result]) -> None:
    rows = {row.policy: row.paper for row in results["table1-paper"].rows if row.paper}
    assert rows == {name: figures.figures() for name, figures in MAIN.items()}
    cells = {(row.policy, row.variant): row.paper for row in results["decomposition"].rows}
    assert cells == {cell: figures.figures() for cell, figures in DECOMPOSITION.items()}


def test_a_ceiling_out_of_reach_is_a_row_without_figures(results: dict[str, Result]) -> None:
    lost = [row for row in results["frontier"].rows if not row.reached]
    assert {row.policy for row in lost} == {"drqn-cmdp-plus"}
    assert {row.rho for row in lost} == {0.01}
    assert all(row.seeds == 0 and all(row.out_of_reach) for row in lost)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_written_is_read_back(
    published: Path, results: dict[str, Result], name: str
) -> None:
    assert read_result(published / f"{name}.json") == results[name]


def test_the_table_has_every_measure_of_every_row(
    published: Path, results: dict[str, Result]
) -> None:
    with (published / "frontier.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == sum(len(row.measures) for row in results["frontier"].rows)
    first = results["frontier"].rows[0]
    assert [float(lines[0][f"seed_{seed}"]) for seed in range(SEEDS)] == list(
        first.measures["gas"].by_seed
    )
    assert lines[0]["seeds"] == str(SEEDS)


def test_half_an_experiment_is_no_result(jobs_done: Path) -> None:
    with pytest.raises(InputError, match="all of shift"):
        gather("shift", Effort(seeds=SEEDS + 1), jobs_done)


@pytest.mark.parametrize("change", [{"rows": 3}, {"extra": 1}, {"seeds": "five"}])
def test_a_file_that_is_no_result_is_refused(
    published: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    fields = json.loads((published / "shift.json").read_text()) | change
    path = tmp_path / "shift.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(MalformedError, match=r"shift\.json can't be used"):
        read_result(path)


def test_the_main_comparison_is_shipped() -> None:
    assert (SHIPPED / "table1-paper.json").exists()


def test_what_is_shipped_is_whole_and_has_several_seeds() -> None:
    assert {path.stem for path in SHIPPED.glob("*.json")} == set(EXPERIMENTS)
    for path in SHIPPED.glob("*.json"):
        result = read_result(path)
        seeds = SEEDS if path.stem.startswith("table1") else 3
        assert path.stem == result.experiment
        assert not result.taste
        assert result.seeds >= seeds
        assert result.episodes == 2000
        for row in result.rows:
            assert not row.trained or len(row.out_of_reach) >= seeds, row.policy
