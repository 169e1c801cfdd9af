"""A dask scheduler and its workers, as processes on loopback."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from tests.support import parts
from tests.support.processes import running

START_SECONDS = 60.0


@dataclass(frozen=True)
class DaskCluster:
    address: str
    client: Any  # a `distributed.Client`, to see what the workers do
    folder: Path
    scheduler: Popen[str]

    @contextmanager
    def worker(self, name: str) -> Iterator[Popen[str]]:
        """Run a worker with one thread, in a folder that has none of our files."""
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", name)
        with _program("worker", self.address, *options, folder=self.folder) as process:
            wait_until(lambda: name in self.names(), process)
            yield process

    def names(self) -> dict[str, str]:
        """Return the addresses of the workers by their names."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {worker["name"]: address for address, worker in workers.items()}

    def is_busy(self, name: str) -> bool:
        return bool(self.client.processing().get(self.names().get(name)))


@contextmanager
def dask_cluster(folder: Path) -> Iterator[DaskCluster]:
    """Run a scheduler without workers."""
    distributed = parts.distributed()
    file = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file)
    with _program("scheduler", *options, folder=folder) as process:
        wait_until(file.exists, process)
        address = json.loads(file.read_text())["address"]
        with distributed.Client(address, set_as_default=False) as client:
            yield DaskCluster(address, client, folder, process)


@contextmanager
def _program(name: str, *arguments: str | Path, folder: Path) -> Iterator[Popen[str]]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *arguments]
    with (
        (folder / f"{name}.log").open("a") as log,
        running(command, cwd=folder, stdout=log, stderr=log) as process,
    ):
        yield process


def wait_until(condition: Callable[[], bool], process: Popen[str]) -> None:
    """Wait for a condition while a process runs."""
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        assert process.poll() is None, "it has ended"
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)
