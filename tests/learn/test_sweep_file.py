"""A sweep is every combination that its file names, in an order that shards can divide."""

from pathlib import Path

import pytest

from holdfast.errors import InputError
from holdfast.learn.sweep_file import read_sweep, select_shard


def written(folder: Path, text: str) -> Path:
    file = folder / "sweep.toml"
    file.write_text(text)
    return file


def test_a_hundred_seeds_of_twenty_ceilings_are_two_thousand_trainings(tmp_path: Path) -> None:
    ceilings = [round(0.01 * step, 2) for step in range(1, 21)]
    text = f'methods = ["drqn-cmdp"]\nceilings = {ceilings}\nseeds = 100\nepisodes = 900\n'
    jobs = read_sweep(written(tmp_path, text)).jobs(tmp_path)
    assert len({job.folder for job in jobs}) == 2000
    assert {job.run.units for job in jobs} == {900}
    parts = [select_shard(jobs, f"{number}/7") for number in range(1, 8)]
    assert sorted(len(part) for part in parts) == [285] * 2 + [286] * 5
    assert {job.folder for part in parts for job in part} == {job.folder for job in jobs}


def test_methods_have_settings_and_units_of_their_own(tmp_path: Path) -> None:
    text = (
        'methods = ["dqn", "drqn-cmdp-plus"]\nscenarios = ["paper", "paper:blocks=50"]\n'
        "seeds = [3, 5]\nepisodes = 10\nrounds = 20\n"
        "[settings.dqn]\nlearning_rate = 0.5\nmultiplier.value = 2\n"
    )
    jobs = read_sweep(written(tmp_path, text)).jobs(Path("runs"))
    assert [str(job.folder) for job in jobs[:4]] == [
        *("runs/dqn/paper/seed-3", "runs/dqn/paper/seed-5"),
        *("runs/dqn/paper-blocks=50/seed-3", "runs/dqn/paper-blocks=50/seed-5"),
    ]
    assert [job.run.units for job in jobs] == [10] * 4 + [20] * 4
    assert jobs[0].run.description()["settings"]["learning_rate"] == 0.5
    assert jobs[0].run.description()["settings"]["multiplier"]["value"] == 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("methods = ", "not a TOML file"),
        ("seeds = 3", "names its methods"),
        ('methods = "dqn"', "methods must be texts"),
        ('methods = ["dqnn"]', "no learned method 'dqnn'"),
        ('methods = ["dqn", "dqn"]', "share a folder"),
        ('methods = ["dqn"]\nceilings = [0.1]', "fixed multiplier"),
        ('methods = ["dqn"]\nceilings = ["low"]', "ceilings must be numbers"),
        ('methods = ["dqn"]\nseeds = 0', "seeds must be"),
        ('methods = ["dqn"]\nseeds = [-1]', "a seed is a whole number"),
        ('methods = ["dqn"]\nepisodes = 1.5', "episodes must be whole numbers"),
        ('methods = ["dqn"]\nepisodes = 0', "at least one episode"),
        ('methods = ["dqn"]\n[settings]\nlearning_rate = 1', "tables of methods"),
        ('methods = ["dqn"]\n[settings.ppo]\nepochs = 1', "tables of methods"),
        ('methods = ["dqn"]\n[settings.dqn]\nlr = 1', "no setting 'lr'"),
    ],
)
def test_what_is_no_sweep_is_told_in_one_sentence(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=named) as refused:
        read_sweep(written(tmp_path, text)).jobs(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "-1/3", "1/0"])
def test_what_is_no_shard_is_refused(shard: str) -> None:
    with pytest.raises(InputError, match="second of five"):
        select_shard([1, 2, 3], shard)
