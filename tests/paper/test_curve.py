"""Curves are smoothed over thirty episodes and thinned, whatever their length."""

from pathlib import Path

import pytest

from holdfast.errors import MalformedError
from holdfast.paper.curve import MAX_POINTS, read_curve


def written(path: Path, count: int) -> Path:
    lines = ["unit,return,multiplier", *(f"{unit},{unit},10" for unit in range(1, count + 1))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("count", [1, 29, 30, 31, 600, 5000])
def test_a_curve_ends_with_the_mean_of_its_last_thirty_episodes(tmp_path: Path, count: int) -> None:
    curve = read_curve(written(tmp_path / "curve.csv", count))
    assert len(curve.episode) == len(curve.returns) == len(curve.multiplier) <= MAX_POINTS
    assert curve.episode[-1] == count
    last = range(max(count - 29, 1), count + 1)
    assert curve.returns[-1] == pytest.approx(sum(last) / len(last), rel=1e-4)
    assert set(curve.multiplier) == {10.0}


def test_a_method_without_a_return_has_an_empty_column(tmp_path: Path) -> None:
    path = tmp_path / "curve.csv"
    path.write_text("unit,gas\n1,5.0\n2,6.0\n")
    curve = read_curve(path)
    assert curve.episode == (1, 2)
    assert curve.returns == curve.multiplier == ()


def test_what_is_no_curve_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "curve.csv"
    path.write_text("unit,return\n1,much\n")
    with pytest.raises(MalformedError, match=r"curve\.csv"):
        read_curve(path)
