"""`holdfast train` as users run it: once, again, interrupted, and with several seeds."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.command_line import Shell, Workplace, end, without_progress
from tests.support.processes import running

from holdfast.learn import training

pytestmark = pytest.mark.usefixtures("world")

WORLD = (
    "horizon = 30\nblocks = 100\nmalicious_rate = 0.9\nhonest_rate = 0.0\nmalicious_share = 0.5\n"
)
TRAIN = ("train", "--method", "dqn", "--scenario", "world.toml", "--episodes", "60")
OUTPUTS = ("policy.safetensors", "curve.csv", "manifest.json")
# The real command, but for a snapshot after each episode.
EAGER = (
    "import sys; from holdfast.learn import training; training.SECONDS = 0;"
    "from holdfast.cli.app import main; main(sys.argv[1:])"
)


@pytest.fixture
def world(workplace: Workplace) -> Path:
    file = workplace.directory / "world.toml"
    file.write_text(WORLD)
    return file


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "VALIDATION_EPISODES", 50)


def outputs(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in OUTPUTS]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_a_training_tells_where_its_checkpoint_is_and_how_to_use_it(workplace: Workplace) -> None:
    told = workplace.run(*TRAIN, "--out", "dqn", "--seed", "3")
    assert (told.code, without_progress(told.stderr)) == (0, "")
    assert "seed 3 was trained: dqn\n" in told.stdout
    assert "over 50 episodes: gas " in told.stdout
    before = outputs(workplace.directory / "dqn")

    again = workplace.run(*TRAIN, "--out", "dqn", "--seed", "3", "--json")
    assert (again.code, again.stderr) == (0, "")
    assert {name: again.data[name] for name in ("method", "scenario", "units")} == {
        "method": "dqn",
        "scenario": "world",
        "units": 60,
    }
    (only,) = again.data["trained"]
    assert only["trained_before"]
    assert (only["seed"], only["checkpoint"]) == (3, "dqn")
    manifest = json.loads((workplace.directory / "dqn" / "manifest.json").read_text())
    assert only["evaluation"] == manifest["evaluation"]
    assert "was trained before" in workplace.run(*TRAIN, "--out", "dqn", "--seed", "3").stdout
    assert outputs(workplace.directory / "dqn") == before

    # As it says: by the folder, though it has the name of a method, and where JAX is not installed.
    script = (
        "import sys; sys.modules.update(jax=None, jaxlib=None, optax=None);"
        "from holdfast.cli.app import main; main(sys.argv[1:])"
    )
    words = [*only["use"].split()[1:], "--episodes", "5", "--json"]
    finished = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert list(json.loads(finished.stdout)["policies"]) == ["./dqn"]


@pytest.mark.slow
def test_a_killed_command_goes_on_when_it_is_given_again(workplace: Workplace) -> None:
    command = [*TRAIN, "--out", "killed"]
    state = workplace.directory / "killed" / training.STATE
    deadline = time.monotonic() + 100
    with running([sys.executable, "-c", EAGER, *command]) as process:
        while not state.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
    assert not (workplace.directory / "killed" / "manifest.json").exists()
    assert workplace.run(*command).code == 0
    assert workplace.run(*TRAIN, "--out", "straight").code == 0
    killed, straight = (outputs(workplace.directory / name) for name in ("killed", "straight"))
    assert killed == straight


def test_settings_are_shown_and_changed_and_recorded(workplace: Workplace) -> None:
    shown = workplace.run("train", "--method", "dqn", "--show-settings", "--set", "batch_size=8")
    assert (shown.code, shown.stderr) == (0, "")
    assert "batch_size = 8\n" in shown.stdout
    (workplace.directory / "dqn.toml").write_text(shown.stdout)
    words = ("--settings", "dqn.toml", "--set", "features=[16]", "--episodes", "1", "--json")
    trained = workplace.run(*TRAIN[:-2], *words, "--out", "small")
    assert (trained.code, trained.data["changed_settings"]["features"]) == (0, [16])
    recorded = json.loads((workplace.directory / "small" / "run.json").read_text())["settings"]
    assert (recorded["features"], recorded["batch"]) == ([16], 8)
    assert "--out" in workplace.run("train", "--method", "dqn").sentence()


@pytest.mark.slow
def test_seeds_train_side_by_side_as_they_do_alone(workplace: Workplace) -> None:
    both = workplace.run(*TRAIN, "--seeds", "2", "--out", "both", "--json")
    assert (both.code, without_progress(both.stderr)) == (0, "")
    assert [each["seed"] for each in both.data["trained"]] == [0, 1]
    folders = [Path(each["checkpoint"]) for each in both.data["trained"]]
    assert folders == [Path("both/seed-0"), Path("both/seed-1")]
    assert workplace.run(*TRAIN, "--seed", "1", "--out", "alone").code == 0
    assert outputs(folders[1]) == outputs(Path("alone"))
    assert outputs(folders[0]) != outputs(folders[1])
    again = workplace.run(*TRAIN, "--seed", "0", "--seed", "1", "--out", "both", "--json")
    assert all(each["trained_before"] for each in again.data["trained"])


@pytest.mark.slow
def test_a_sweep_trains_what_its_file_describes_in_shards_and_is_aggregated(
    workplace: Workplace,
) -> None:
    (workplace.directory / "sweep.toml").write_text(
        'methods = ["ppo-lagrangian"]\nscenarios = ["world.toml"]\nceilings = [0.05, 0.1]\n'
        "seeds = 2\nepisodes = 2\n[settings.ppo-lagrangian]\nfeatures = [16]\n"
    )
    train = ("train", "--sweep", "sweep.toml", "--out", "runs", "--json")
    shards = [workplace.run(*train, "--shard", f"{part}/2") for part in (1, 2)]
    folders = [run["checkpoint"] for shard in shards for run in shard.data["trained"]]
    place = "runs/ppo-lagrangian/world"
    assert sorted(folders) == [f"{place}/rho-{r}/seed-{k}" for r in ("0.05", "0.1") for k in (0, 1)]
    again = workplace.run(*train)
    assert all(run["trained_before"] for run in again.data["trained"])
    assert len(again.data["trained"]) == 4

    table = workplace.run("aggregate", "runs", "--csv", "runs.csv", "--json")
    assert (table.code, table.stderr) == (0, "")
    assert [(group["rho"], group["seeds"]) for group in table.data["groups"]] == [
        (0.05, 2),
        (0.1, 2),
    ]
    rows = (workplace.directory / "runs.csv").read_text().splitlines()
    assert len({row.count(",") for row in rows}) == 1
    assert len(rows) == 3
    assert "ppo-lagrangian" in workplace.run("aggregate", "runs").stdout


@pytest.mark.slow
def test_ctrl_c_ends_every_worker(workplace: Workplace) -> None:
    command = (*TRAIN[:-1], "1000000", "--seeds", "2", "--out", "long")
    with Shell(workplace.directory).start(*command) as process:
        deadline = time.monotonic() + 100
        while len(list(workplace.directory.glob("long/seed-*/events/*"))) < 2:
            assert process.poll() is None, end(process)
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        finished = end(process)
    assert finished.code == 130
    # JAX may be in a callback of its own when the signal comes, and Python says so.
    assert without_progress(finished.stderr).endswith("holdfast: interrupted\n")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--method dqnn", "drqn-cmdp-plus"),
        ("--method dqn --rounds 3", "counts episodes"),
        ("--method drqn-cmdp-plus --episodes 3", "counts rounds"),
        ("--method drqn-cmdp-plus --rho 0.1", "dial"),
        ("--method a2c --rho 0.1", "fixed multiplier"),
        ("--method drqn-cmdp --rho 1", "between 0 and 1"),
        ("--method drqn-cmdp --rho nan", "between 0 and 1"),
        ("--method dqn --episodes 0", "--episodes"),
        ("--method dqn --seed -1", "--seed"),
        ("--method dqn --seed 1 --seeds 2", "not both"),
        ("--method dqn --jobs 0", "--jobs"),
        ("--method dqn --scenario papyrus", "paper, drift, field"),
        ("--method dqn --scenario none.toml", "none.toml"),
        ("--seed 1", "--method"),
        ("--method dqn --seeds 4 --shard 5/4", "second of five parts"),
        ("--method dqn --seeds 4 --shard 0/4", "second of five parts"),
        ("--method dqn --sweep world.toml", "with --sweep"),
        ("--sweep world.toml", "unknown key 'horizon'"),
        ("--sweep none.toml", "none.toml"),
        ("--method ppo --set lr=1", "its settings are epochs"),
        ("--method ppo --set epochs=many", "whole number"),
        ("--method ppo --settings none.toml", "none.toml"),
    ],
)
def test_what_cannot_be_trained_is_told_in_one_sentence(
    workplace: Workplace, line: str, named: str
) -> None:
    assert named in workplace.run("train", *line.split(), "--out", "out").sentence()
    assert [path.name for path in workplace.directory.iterdir()] == ["world.toml"]


@pytest.mark.usefixtures("brief")
def test_the_folder_of_another_training_is_refused(workplace: Workplace) -> None:
    short = (*TRAIN[:-1], "1")
    assert workplace.run(*short, "--out", "runs/seed-1", "--seed", "7").code == 0
    said = workplace.run(*TRAIN, "--seeds", "2", "--out", "runs").sentence()
    assert "runs/seed-1 holds another training" in said
    assert [path.name for path in Path("runs").iterdir()] == ["seed-1"], "nothing was begun"
    assert "world.toml" in workplace.run(*short, "--out", "world.toml").sentence()


def test_without_jax_it_says_how_to_install_it(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    said = workplace.run(*TRAIN, "--out", "out").sentence()
    assert "pip install 'holdfast[train]'" in said
    assert not Path("out").exists()
