"""`holdfast paper` shows what ships at once, and makes the rest anew in a folder."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from tests.paper.invented import fill
from tests.support.command_line import Workplace

from holdfast.paper import publication, result
from holdfast.paper.experiments import EXPERIMENTS, Effort, Programme
from holdfast.paper.job import done_path

FILES = {"shift.json", "shift.csv", "shift.svg", "shift.png"}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which all jobs of two experiments are done."""
    folder = tmp_path_factory.mktemp("done")
    fill(folder, Effort(), ["shift", "sensitivity"])
    return folder


@pytest.fixture
def shipped(tmp_path: Path, done: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the results of one experiment be all that ship."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    publication.publish([result.gather("shift", Effort(), done)], folder)
    monkeypatch.setattr(result, "SHIPPED", folder)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("shipped")
def test_shipped_results_are_shown_at_once_and_without_jax(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    finished = workplace.run("paper", "shift")
    assert (finished.code, finished.stderr) == (0, "")
    assert "5 training seeds" in finished.stdout
    assert "drqn-cmdp-plus, prior 0.5" in finished.stdout
    assert "TASTE" not in finished.stdout


@pytest.mark.slow
def test_json_is_the_data_alone(workplace: Workplace, shipped: Path) -> None:
    data = workplace.run("paper", "shift", "--json").data
    assert data == json.loads((shipped / "shift.json").read_text())


@pytest.mark.slow
def test_a_full_folder_is_published_without_any_work(
    workplace: Workplace, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    out = workplace.directory / "out"
    shutil.copytree(done / "jobs", out / "jobs")
    first = workplace.run("paper", "shift", "--out", out, "--json")
    assert (first.code, first.stderr) == (0, "")
    assert {path.name for path in out.iterdir()} == {"jobs", *FILES}
    before = {name: (out / name).read_bytes() for name in FILES}
    again = workplace.run("paper", "shift", "--out", out, "--json")
    assert again.data == first.data
    assert {name: (out / name).read_bytes() for name in FILES} == before


@pytest.mark.slow
def test_only_what_is_missing_is_done_and_told_line_by_line(
    workplace: Workplace, done: Path
) -> None:
    out = workplace.directory / "out"
    shutil.copytree(done / "jobs", out / "jobs")
    programme = Programme(Effort())
    rules = [row for row in programme.rows("sensitivity") if row.policy.startswith("fixed")]
    missing = [job for row in rules[:2] for job in programme.jobs_of(row)]
    for job in missing:
        done_path(out, job).unlink()
    finished = workplace.run("paper", "sensitivity", "--out", out, "--jobs", "1")
    assert finished.code == 0, finished
    rows = finished.stderr.splitlines()
    assert [row.split(",")[0] for row in rows] == ["1 of 2 jobs", "2 of 2 jobs"]
    assert all("elapsed" in row and "left" in row for row in rows)
    assert all(done_path(out, job).exists() for job in missing)


@pytest.mark.slow
def test_a_taste_says_so(workplace: Workplace) -> None:
    out = workplace.directory / "out"
    fill(out, Effort(seeds=1, episodes=100, taste=True), ["shift"])
    table = workplace.run("paper", "shift", "--quick", "--out", out)
    assert "A TASTE, NOT A RESULT" in table.stdout
    assert "1 training seed, tried on 100 episodes" in table.stdout
    assert workplace.run("paper", "shift", "--quick", "--out", out, "--json").data["taste"] is True
    assert ",True," in (out / "shift.csv").read_text()


@pytest.mark.usefixtures("shipped")
def test_what_cannot_be_shown_or_made_is_refused_in_a_sentence(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sentence(row: str) -> str:
        return workplace.run("paper", *row.split()).sentence()

    assert "no results of frontier are shipped" in sentence("frontier")
    assert "need --out DIR or --quick" in sentence("shift --seeds 3")
    assert "--seeds" in sentence("shift --quick --seeds 0")
    assert "--scenario" in sentence("table1 --scenario field")
    assert "leave it out" in sentence("shift --scenario drift")
    assert "EXPERIMENT" in sentence("report")
    (workplace.directory / "file").touch()
    assert "file is not a folder" in sentence("shift --out file")
    monkeypatch.setitem(sys.modules, "jax", None)
    assert "training needs jax" in sentence("shift --quick")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "holdfast[plot]" in sentence("shift --out new")


def test_the_help_names_every_experiment(workplace: Workplace) -> None:
    said = workplace.run("paper", "--help").stdout
    for name in EXPERIMENTS:
        assert name.partition("-")[0] in said
