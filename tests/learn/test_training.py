"""A training is the same whether or not it was interrupted, and its folder is its own."""

import csv
import os
import signal
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.numpy
from tensorboardX.proto import event_pb2
from tests.learn.worlds import VISIBLE, quick, run_of

from holdfast import atomic
from holdfast.errors import ConflictError, HoldfastError, InputError, MalformedError, StorageError
from holdfast.learn import evaluation_curve
from holdfast.learn.drqn_cmdp_plus import PlusSettings
from holdfast.learn.folder_lock import TRAINING
from holdfast.learn.methods import METHODS, with_ceiling
from holdfast.learn.training import CURVE, EVALUATION, STATE, Run, train
from holdfast.model.scenario import Scenario
from holdfast.policy import checkpoint
from holdfast.policy.checkpoint import MANIFEST, WEIGHTS

pytestmark = pytest.mark.usefixtures("brief")

UNITS = 40
OUTPUTS = (WEIGHTS, CURVE, MANIFEST)


class StopError(Exception):
    pass


def units_of(method: str) -> int:
    return 4 if method == "drqn-cmdp-plus" else UNITS


def stop_after(units: int, run: Run, folder: Path, *, evaluate_every: int | None = None) -> None:
    """Train, and be interrupted in the unit after so many."""

    def on_progress(_phase: str, done: float, _figures: dict[str, float]) -> None:
        if done > units:
            raise StopError

    with pytest.raises(StopError):
        train(run, folder, on_progress, evaluate_every=evaluate_every)


def outputs(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in OUTPUTS}


def events(folder: Path) -> dict[tuple[str, int], float]:
    """Return every scalar by its tag and step, from the records that TensorBoard reads."""
    figures: dict[tuple[str, int], float] = {}
    for path in (folder / "events").iterdir():
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = event_pb2.Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]
            for value in event.summary.value:
                if value.tag.startswith("_hparams_"):
                    continue
                key = (value.tag, event.step)
                assert key not in figures, "every figure is there once"
                figures[key] = value.simple_value
    return figures


def assert_events_are_the_curve(folder: Path) -> None:
    with (folder / CURVE).open() as file:
        rows = list(csv.DictReader(file))
    expected = {
        ("losses/loss" if name == "loss" else f"charts/{name}", int(row["unit"])): float(value)
        for row in rows
        for name, value in row.items()
        if name != "unit"
    }
    figures = events(folder)
    assert figures.keys() == expected.keys()
    for key, value in expected.items():
        assert figures[key] == pytest.approx(value, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_an_interrupted_training_ends_as_if_it_had_not_been(method: str, tmp_path: Path) -> None:
    units = units_of(method)
    run = run_of(method, units=units)
    if isinstance(run.settings, PlusSettings):
        run = replace(
            run, settings=replace(run.settings, buffer_size=3)
        )  # less than it lives through
    train(run, tmp_path / "straight")
    stop_after(units // 2, run, tmp_path / "stopped")
    assert not (tmp_path / "stopped" / MANIFEST).exists()
    train(run, tmp_path / "stopped")
    assert outputs(tmp_path / "stopped") == outputs(tmp_path / "straight")
    assert not (tmp_path / "stopped" / STATE).exists()
    assert_events_are_the_curve(tmp_path / "straight")
    assert_events_are_the_curve(tmp_path / "stopped")
    with (tmp_path / "straight" / CURVE).open() as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    assert len(losses) == units
    assert any(losses), "it learned something meanwhile"

    train(replace(run, seed=1), tmp_path / "other")
    weights = [
        safetensors.numpy.load((tmp_path / name / WEIGHTS).read_bytes())
        for name in ("straight", "other")
    ]
    for name, array in weights[0].items():
        assert (array != weights[1][name]).mean() > 0.5, "other seeds give other weights"


@pytest.mark.slow
def test_a_killed_process_is_taken_up_by_the_next(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from tests.learn.worlds import run_of\n"
        "from holdfast.learn import training\n"
        "training.SECONDS = 0\n"
        "def on_progress(phase, done, figures):\n"
        "    if done == 33: os.kill(os.getpid(), signal.SIGKILL)\n"
        "training.train(run_of('drqn-cmdp'), Path(sys.argv[1]), on_progress)\n"
    )
    folder = tmp_path / "killed"
    there = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", script, folder], check=False, env=there)
    assert killed.returncode == -signal.SIGKILL
    assert (folder / STATE).exists()
    run = run_of("drqn-cmdp")
    train(run, folder)
    train(run, tmp_path / "straight")
    assert outputs(folder) == outputs(tmp_path / "straight")
    assert_events_are_the_curve(folder)


def test_a_finished_folder_is_left_as_it_is(tmp_path: Path) -> None:
    run = run_of("dqn")
    train(run, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    def on_progress(*_: object) -> None:
        raise StopError

    train(run, tmp_path, on_progress)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_folder_of_another_training_is_refused_and_left_alone(tmp_path: Path) -> None:
    run = run_of("dqn", units=1)
    train(run, tmp_path)
    before = outputs(tmp_path)
    for other in (
        replace(run, seed=1),
        replace(run, scenario=replace(VISIBLE, blocks=99)),
        run_of("d3qn", units=1),
    ):
        with pytest.raises(InputError, match="another training"):
            train(other, tmp_path)
    (tmp_path / "run.json").unlink()
    with pytest.raises(InputError, match="a checkpoint already"):
        train(run, tmp_path)
    assert outputs(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dqn", "ppo", "drqn-cmdp"])
@pytest.mark.parametrize("keep_state", [True, False])
def test_a_training_is_extended_as_if_it_had_been_longer_from_the_start(
    method: str, keep_state: bool, tmp_path: Path
) -> None:
    short, long = run_of(method, units=20), run_of(method, units=UNITS)
    train(long, tmp_path / "straight")
    train(short, tmp_path / "extended", keep_state=keep_state)
    assert (tmp_path / "extended" / STATE).exists() == keep_state
    begun = []
    train(long, tmp_path / "extended", lambda _phase, done, _figures: begun.append(done))
    assert begun[0] == (21 if keep_state else 1)
    assert outputs(tmp_path / "extended") == outputs(tmp_path / "straight")
    assert_events_are_the_curve(tmp_path / "extended")
    with pytest.raises(InputError, match="of 40 units, which is longer than 20"):
        train(short, tmp_path / "extended")


@pytest.mark.slow
def test_an_interrupted_extension_keeps_the_old_checkpoint_and_resumes(tmp_path: Path) -> None:
    short, long = run_of("dqn", units=20), run_of("dqn")
    train(long, tmp_path / "straight")
    train(short, tmp_path / "extended", keep_state=True)
    stop_after(30, long, tmp_path / "extended")
    assert checkpoint.load(tmp_path / "extended").manifest.training["units"] == 20
    train(long, tmp_path / "extended")
    assert outputs(tmp_path / "extended") == outputs(tmp_path / "straight")


@pytest.mark.slow
def test_a_training_whose_schedule_spans_it_is_not_extended(tmp_path: Path) -> None:
    run = run_of("drqn-cmdp-plus", units=4)
    train(run, tmp_path, keep_state=True)
    before = outputs(tmp_path)
    with pytest.raises(InputError, match="can't be extended to 8: learning rate and exploration"):
        train(replace(run, units=8), tmp_path)
    assert outputs(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dqn", "ppo", "drqn-cmdp", "drqn-cmdp-plus"])
def test_evaluations_on_fixed_episodes_leave_the_weights_as_they_are(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_curve, "EPISODES", 20)
    run = run_of(method, units=4)
    train(run, tmp_path / "without")
    assert not (tmp_path / "without" / EVALUATION).exists()
    train(run, tmp_path / "with", evaluate_every=2)
    stop_after(2, run, tmp_path / "resumed", evaluate_every=2)
    train(run, tmp_path / "resumed", evaluate_every=2)
    for name in OUTPUTS:
        before = (tmp_path / "without" / name).read_bytes()
        assert (tmp_path / "with" / name).read_bytes() == before
    text = (tmp_path / "with" / EVALUATION).read_text()
    assert (tmp_path / "resumed" / EVALUATION).read_text() == text
    header, *rows = text.splitlines()
    assert header == "unit,gas,latency,miss_rate,multiplier"
    assert [row.split(",")[0] for row in rows] == ["2", "4"]
    assert all(row.count(",") == 4 and row.split(",")[4] for row in rows)
    figures = events(tmp_path / "with")
    for unit in (2, 4):
        assert figures["evaluation/gas", unit] > 0
        assert figures["evaluation/multiplier", unit] > 0


def test_tensorboard_shows_the_settings(tmp_path: Path) -> None:
    train(run_of("dqn", units=1), tmp_path)
    (file,) = (tmp_path / "events").iterdir()
    content = file.read_bytes()
    for name in (b"_hparams_/session_start_info", b"learning_rate", b"multiplier.step"):
        assert name in content


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    run = run_of("dqn", units=2)

    def on_progress(_phase: str, _done: float, _figures: dict[str, float]) -> None:
        with pytest.raises(ConflictError, match="another process is training in") as refused:
            train(run, tmp_path)
        assert "\n" not in str(refused.value)

    train(run, tmp_path, on_progress)
    assert not [path for path in tmp_path.iterdir() if "lock" in path.name]


def test_the_lock_of_a_killed_process_does_not_bind(tmp_path: Path) -> None:
    (tmp_path / TRAINING).write_bytes(b"")
    train(run_of("dqn", units=1), tmp_path)
    assert checkpoint.load(tmp_path).manifest.seed == 0


@pytest.mark.parametrize("left", [0, 7, 100, -1])
def test_a_truncated_snapshot_is_named(left: int, tmp_path: Path) -> None:
    run = run_of("dqn")
    stop_after(8, run, tmp_path)
    state = tmp_path / STATE
    state.write_bytes(state.read_bytes()[:left])
    with pytest.raises(MalformedError, match=r"state\.safetensors"):
        train(run, tmp_path)
    state.unlink()
    train(run, tmp_path)
    assert (tmp_path / MANIFEST).exists()


def test_the_snapshot_of_another_method_is_refused(tmp_path: Path) -> None:
    stop_after(8, run_of("dqn"), tmp_path / "dqn")
    stop_after(8, run_of("drqn-cmdp"), tmp_path / "drqn")
    (tmp_path / "dqn" / STATE).replace(tmp_path / "drqn" / STATE)
    with pytest.raises(MalformedError, match="remove it"):
        train(run_of("drqn-cmdp"), tmp_path / "drqn")


@pytest.mark.slow
def test_a_full_disk_ends_a_training_that_goes_on_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of("dqn")
    train(run, tmp_path / "straight")
    write = atomic.write
    calls = 0

    def full(path: Path, content: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls > 7:
            raise StorageError(f"can't write {path}: No space left on device")
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "write", full)
        with pytest.raises(StorageError, match="No space"):
            train(run, tmp_path / "full")
    train(run, tmp_path / "full")
    assert outputs(tmp_path / "full") == outputs(tmp_path / "straight")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["d3qn", "ppo", "drqn-cmdp", "drqn-cmdp-plus"])
@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(name="moment", horizon=1, blocks=1),
        replace(VISIBLE, name="sound", malicious_share=0.0, horizon=14),
    ],
    ids=lambda scenario: scenario.name,
)
def test_the_shortest_training_in_the_barest_world_ends_with_a_checkpoint(
    method: str, scenario: Scenario, tmp_path: Path
) -> None:
    # Of rounds as many as above, since their number is compiled in.
    units = 4 if method == "drqn-cmdp-plus" else 1
    train(Run(method, scenario, 0, units, quick(method)), tmp_path)
    manifest = checkpoint.load(tmp_path).manifest
    assert manifest.scenario == scenario
    if scenario.name == "sound":
        assert manifest.evaluation["miss_rate"]["value"] is None, "there was nothing to miss"


@pytest.mark.parametrize("change", [{"units": 0}, {"seed": -1}])
def test_a_run_without_a_sense_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(InputError):
        replace(run_of("dqn"), **change)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_ceiling_reaches_the_manifest(tmp_path: Path) -> None:
    settings = with_ceiling("ppo-lagrangian", 0.125)
    train(Run("ppo-lagrangian", replace(VISIBLE, horizon=14), 0, 1, settings), tmp_path)
    assert checkpoint.load(tmp_path).manifest.rho == 0.125
    for method, rho in (("dqn", 0.1), ("drqn-cmdp-plus", 0.1), ("drqn-cmdp", 0.0)):
        with pytest.raises(HoldfastError):
            with_ceiling(method, rho)
