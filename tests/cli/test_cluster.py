"""Sweeps on a cluster: the same figures as on one machine, also where a worker dies."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support import parts
from tests.support.command_line import QuickShell, Shell, Workplace, end
from tests.support.dask_cluster import DaskCluster, dask_cluster, wait_until

from holdfast import cluster, executor
from holdfast.errors import HoldfastError, InputError
from holdfast.executor import LocalExecutor
from holdfast.model.scenario import PAPER
from holdfast.paper import runner
from holdfast.paper.job import Job, Training, Trial, done_path

WORLD = (
    "horizon = 30\nblocks = 100\nmalicious_rate = 0.9\nhonest_rate = 0.0\nmalicious_share = 0.5\n"
)
TRAIN = ("train", "--method", "dqn", "--scenario", "world.toml")
OUTPUTS = ("policy.safetensors", "curve.csv", "manifest.json", "run.json")


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Yield a scheduler with one worker."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as running, running.worker("steady"):
        yield running


@pytest.fixture
def shell(workplace: Workplace) -> Shell:
    (workplace.directory / "world.toml").write_text(WORLD)
    return QuickShell(workplace.directory)


def outputs(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in OUTPUTS]


@pytest.mark.slow(seconds=20)
def test_a_killed_worker_changes_no_figure(dask: DaskCluster, shell: Shell) -> None:
    sweep = (*TRAIN, "--episodes", "100", "--seeds", "2")
    with dask.worker("doomed") as worker:
        command = shell.start(*sweep, "--out", "far", "--cluster", dask.address, "--json")
        with command as process:
            wait_until(lambda: dask.is_busy("doomed") and dask.is_busy("steady"), process)
            os.kill(worker.pid, signal.SIGKILL)
            trained = end(process)
    assert (trained.code, trained.stderr) == (0, "")
    assert "doomed" not in dask.names()
    assert shell.run(*sweep, "--out", "near").code == 0
    for seed in range(2):
        far, near = (shell.directory / place / f"seed-{seed}" for place in ("far", "near"))
        assert outputs(far) == outputs(near)
        assert [path.is_file() for path in far.glob("events/*")] == [True]

    again = shell.run(*sweep, "--out", "far", "--cluster", dask.address, "--json")
    assert all(seed["trained_before"] for seed in json.loads(again.stdout)["trained"])

    # A checkpoint in a folder is carried to the workers, which lack the folder.
    policies = ("--policy", "far/seed-1", "--policy", "belief", "--policy", "oracle")
    evaluate = ("evaluate", *policies, "--scenario", "world.toml", "--episodes", "50", "--json")
    here, there = shell.run(*evaluate), shell.run(*evaluate, "--cluster", dask.address)
    assert (there.code, there.stderr) == (0, "")
    assert there.stdout == here.stdout


@pytest.mark.slow
def test_a_plan_is_the_same(dask: DaskCluster, shell: Shell) -> None:
    plan = ("plan", "--ceiling", "0.9", "--episodes", "20", "--no-references", "--json")
    here, there = shell.run(*plan), shell.run(*plan, "--cluster", dask.address)
    assert (there.code, there.stderr) == (0, "")
    assert there.stdout == here.stdout


@pytest.mark.slow
def test_the_results_of_the_paper_are_the_same(dask: DaskCluster, tmp_path: Path) -> None:
    rule = Job(None, (Trial(PAPER, "fixed-low"),), 20)
    agent = Job(Training("dqn", PAPER, 5), (Trial(PAPER),), 20)
    wrong = Job(None, (Trial(PAPER, "nonesuch"),), 20)
    told = []
    with LocalExecutor(1) as local:
        runner.run([rule, agent], tmp_path / "near", local, lambda _job, _share: None)
    with (
        pytest.raises(HoldfastError, match=r"1 of 3 jobs failed.*no policy 'nonesuch'"),
        cluster.connected(dask.address) as remote,
    ):
        runner.run([rule, agent, wrong], tmp_path / "far", remote, lambda *news: told.append(news))
    assert sorted(job.id for job, share in told if share == 1) == sorted((rule.id, agent.id))
    for job in (rule, agent):
        near, far = (done_path(tmp_path / place, job) for place in ("near", "far"))
        assert near.read_bytes() == far.read_bytes()


@pytest.mark.slow
def test_ctrl_c_ends_the_command_and_the_jobs_on_the_workers(
    dask: DaskCluster, shell: Shell
) -> None:
    command = (*TRAIN, "--episodes", "1000000", "--out", "long", "--cluster", dask.address)
    with shell.start(*command) as process:
        wait_until(lambda: dask.is_busy("steady"), process)
        os.killpg(process.pid, signal.SIGINT)
        finished = end(process)
    assert (finished.code, finished.stderr) == (130, "holdfast: interrupted\n")
    assert not list((shell.directory / "long").glob("*"))
    # The worker has one thread: it would never come to the next job.
    next_job = ("evaluate", "--policy", "fixed-low", "--episodes", "5", "--cluster", dask.address)
    assert shell.run(*next_job).code == 0


@pytest.mark.slow
def test_a_killed_scheduler_ends_the_command_with_a_sentence(tmp_path: Path, shell: Shell) -> None:
    with dask_cluster(tmp_path) as running, running.worker("only"):
        command = (*TRAIN, "--episodes", "1000000", "--out", "long", "--cluster", running.address)
        with shell.start(*command) as process:
            wait_until(lambda: running.is_busy("only"), process)
            running.scheduler.kill()
            finished = end(process)
    sentence = finished.sentence()
    assert sentence == "the training in long stopped: the connection to the scheduler was lost"


@pytest.mark.slow
def test_without_workers_a_sentence_says_so(
    tmp_path: Path, workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT_SECONDS", 1)
    with dask_cluster(tmp_path) as empty:
        refused = workplace.run("evaluate", "--policy", "fixed-low", "--cluster", empty.address)
    assert "has no workers: start one with dask worker" in refused.sentence()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "address"),
    [
        ("train --method dqn --out away", "tcp://127.0.0.1:1"),
        ("paper table1 --quick", "tcp://127.0.0.1:1"),
        ("plan --ceiling 0.2", "tcp://127.0.0.1:1"),
        ("evaluate --policy fixed-low", "tcp://127.0.0.1:1"),
        ("evaluate --policy fixed-low", "carrier-pigeon://127.0.0.1:1"),
        ("evaluate --policy fixed-low", ""),
    ],
)
def test_a_scheduler_that_is_not_there_is_named_in_a_sentence(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, address: str, command: str
) -> None:
    parts.distributed()
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT_SECONDS", 1)
    refused = workplace.run(*command.split(), "--cluster", address)
    assert f"can't reach a dask scheduler at {address}" in refused.sentence()


def test_without_dask_a_sentence_says_how_to_get_it(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused = workplace.run("evaluate", "--policy", "fixed-low", "--cluster", "tcp://127.0.0.1:1")
    assert "pip install 'holdfast[cluster]'" in refused.sentence()


@pytest.mark.parametrize("line", ["train --method dqn --out away", "paper table1 --quick"])
def test_jobs_at_a_time_are_for_this_machine(workplace: Workplace, line: str) -> None:
    refused = workplace.run(*line.split(), "--jobs", "2", "--cluster", "tcp://127.0.0.1:1")
    assert "--jobs is for this machine" in refused.sentence()


@pytest.mark.slow
def test_a_worker_of_another_version_is_named() -> None:
    with (
        ThreadPoolExecutor() as pool,  # as another machine would
        pytest.raises(InputError, match=r"install 0\.0 there as well"),
    ):
        pool.submit(executor._run_elsewhere, "0.0", str, 1).result()
