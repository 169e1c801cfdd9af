"""Every experiment has its figures, and the same data draw the same files."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.paper import figures
from holdfast.paper.experiments import EXPERIMENTS
from holdfast.paper.result import Result


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_figures_of_every_experiment_are_drawn(
    published: Path, results: dict[str, Result], name: str
) -> None:
    drawn = figures.painters(results[name])
    assert drawn
    for figure in drawn:
        assert (published / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert (published / f"{figure}.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.slow
def test_the_same_data_draw_the_same_files(
    published: Path, results: dict[str, Result], tmp_path: Path
) -> None:
    (name,) = figures.draw(results["shift"], tmp_path)
    for kind in ("svg", "png"):
        again = (tmp_path / f"{name}.{kind}").read_bytes()
        assert again == (published / f"{name}.{kind}").read_bytes()


@pytest.mark.slow
def test_a_taste_is_labelled_in_the_figure(results: dict[str, Result]) -> None:
    for name, result in results.items():
        for paint in figures.painters(result).values():
            plain, taste = paint(result), paint(replace(result, taste=True))
            assert "TASTE" not in plain.get_suptitle(), name
            assert "TASTE" in taste.get_suptitle(), name


@pytest.mark.slow
def test_the_number_of_seeds_is_in_every_title(results: dict[str, Result]) -> None:
    for result in results.values():
        for paint in figures.painters(result).values():
            assert "5 training seeds" in paint(result).get_suptitle()


@pytest.mark.slow
def test_an_experiment_with_nothing_reached_is_drawn_all_the_same(
    results: dict[str, Result], tmp_path: Path
) -> None:
    frontier = results["frontier"]
    rows = tuple(row for row in frontier.rows if row.policy != "drqn-cmdp-plus" or not row.reached)
    assert figures.draw(replace(frontier, rows=rows), tmp_path) == ["frontier"]
