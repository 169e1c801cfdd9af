"""Jobs in processes of their own: whatever is killed, a second start ends with the same results."""

import multiprocessing
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, InputError
from holdfast.executor import LocalExecutor
from holdfast.model.scenario import PAPER
from holdfast.paper import runner
from holdfast.paper.job import Job, Training, Trial, done_path, read_done, run_folder
from holdfast.policy.lagrangian import Ceilings

SMALL = replace(PAPER, name="small", horizon=40, blocks=40)
RULES = [Job(None, (Trial(SMALL, name),), 20) for name in ("fixed-high", "fixed-low", "oracle")]
AGENT = Job(Training("dqn", SMALL, 60), (Trial(SMALL), Trial(PAPER)), 20)


def ignore(_job: Job, _share: float) -> None:
    """Hear of progress without a word."""


def run(
    jobs: list[Job], out: Path, on_progress: runner.OnProgress = ignore, *, at_once: int = 1
) -> None:
    with LocalExecutor(at_once) as executor:
        runner.run(jobs, out, executor, on_progress)


def contents(out: Path, jobs: list[Job]) -> list[bytes]:
    return [done_path(out, job).read_bytes() for job in jobs]


@pytest.mark.slow
def test_every_job_leaves_its_result_and_is_not_done_again(tmp_path: Path) -> None:
    heard: list[str] = []
    run(RULES, tmp_path, lambda job, share: heard.append(job.id) if share == 1 else None, at_once=2)
    assert sorted(heard) == sorted(job.id for job in RULES)
    assert not runner.missing(RULES, tmp_path)
    done = read_done(tmp_path, RULES[0])
    assert done is not None
    gas = done.trials[0].measures["gas"]
    assert gas.value is not None
    assert gas.value > 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a training was done without any interruption."""
    folder = tmp_path_factory.mktemp("whole")
    run([AGENT], folder)
    return folder


@pytest.mark.slow
def test_a_killed_worker_costs_nothing_but_its_unfinished_piece(
    whole: Path, tmp_path: Path
) -> None:
    def kill(_job: Job, share: float) -> None:
        for process in multiprocessing.active_children():
            if 0.2 < share < 1 and process.pid:
                os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(HoldfastError, match=r"1 of 1 jobs failed.*start again"):
        run([AGENT], tmp_path, kill)
    assert runner.missing([AGENT], tmp_path) == [AGENT]
    assert run_folder(tmp_path, AGENT).is_dir()
    run([AGENT], tmp_path)
    assert contents(tmp_path, [AGENT]) == contents(whole, [AGENT])
    learned = read_done(tmp_path, AGENT)
    assert learned is not None
    assert learned.curve is not None
    assert learned.curve.episode[-1] == 60
    assert learned.multiplier == 10.0


@pytest.mark.slow
def test_an_interruption_stops_the_workers_and_a_second_start_goes_on(
    whole: Path, tmp_path: Path
) -> None:
    def interrupt(_job: Job, share: float) -> None:
        if share > 0.2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([AGENT], tmp_path, interrupt)
    assert not multiprocessing.active_children()
    assert runner.missing([AGENT], tmp_path) == [AGENT]
    run([AGENT], tmp_path)
    assert contents(tmp_path, [AGENT]) == contents(whole, [AGENT])


def test_a_failing_job_does_not_keep_the_others_from_being_done(tmp_path: Path) -> None:
    wrong = Job(None, (Trial(SMALL, "nonesuch"),), 20)
    with pytest.raises(HoldfastError, match=r"1 of 2 jobs failed.*there is no policy 'nonesuch'"):
        run([wrong, RULES[0]], tmp_path)
    assert runner.missing([wrong, RULES[0]], tmp_path) == [wrong]


@pytest.mark.slow
def test_ceilings_out_of_reach_are_a_result(tmp_path: Path) -> None:
    job = Job(None, (Trial(SMALL, "belief:rho=0.0001,latency=1.5"),), 20)
    run([job], tmp_path)
    done = read_done(tmp_path, job)
    assert done is not None
    assert not done.trials[0].measures
    assert "miss rate" in (done.trials[0].out_of_reach or "")


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1, 2", b"\xff\xfe"])
def test_a_damaged_result_is_done_again(tmp_path: Path, damage: bytes) -> None:
    (job, *_) = RULES
    (tmp_path / "jobs").mkdir()
    done_path(tmp_path, job).write_bytes(damage)
    assert runner.missing([job], tmp_path) == [job]


def test_the_result_of_another_description_is_not_taken_for_ours(tmp_path: Path) -> None:
    (job, *_) = RULES
    run([job], tmp_path)
    other = replace(job, seed=job.seed + 1)
    done_path(tmp_path, job).rename(done_path(tmp_path, other))
    assert runner.missing([other], tmp_path) == [other]


def test_other_trials_keep_the_training_but_not_the_result() -> None:
    wider = replace(AGENT, trials=(*AGENT.trials, Trial(SMALL, ceilings=Ceilings(0.1))))
    assert wider.id == AGENT.id
    assert wider.digest != AGENT.digest


def test_without_jax_training_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(InputError, match=r"training needs jax: .*pip install 'holdfast\[train\]'"):
        run([*RULES, AGENT], tmp_path)
    assert not list(tmp_path.iterdir())
    runner.check_can_train(RULES)
