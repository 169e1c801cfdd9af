"""Jobs done side by side, each in a process of its own on a core of its own, the longest first."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from holdfast.errors import HoldfastError, InputError
from holdfast.paper.job import Job, read_done
from holdfast.paper.worker import labour

PATIENCE = 10.0  # seconds a stopped worker has to close its files

Tell = Callable[[Job, float], None]  # hears which share of a job is done; at 1 it is finished


def missing(jobs: Sequence[Job], out: Path) -> list[Job]:
    return [job for job in jobs if read_done(out, job) is None]


def cores() -> list[int]:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def check_can_train(jobs: Sequence[Job]) -> None:
    """Refuse, before any work is done, what this installation can't train."""
    needed = ("jax", "optax", "tensorboardX")
    if any(job.training for job in jobs) and not all(map(find_spec, needed)):
        raise InputError("training needs JAX: pip install 'holdfast[train]'")


def run(jobs: Sequence[Job], out: Path, workers: int, tell: Tell) -> None:
    """Do the jobs. If some fail, do the others before saying so."""
    check_can_train(jobs)
    (out / "jobs").mkdir(parents=True, exist_ok=True)
    resource_tracker.ensure_running()  # which, while it starts, lets through what we hold back
    waiting = sorted(jobs, key=lambda job: job.seconds)
    places = cores()
    idle = [places[index % len(places)] for index in range(workers)]
    running: dict[Connection, _Worker] = {}
    failed: list[str] = []
    try:
        while waiting or running:
            while waiting and idle:
                worker = _start(waiting.pop(), out, idle.pop())
                running[worker.pipe] = worker
            for pipe in wait(list(running)):
                worker = running[pipe]  # type: ignore[index]
                if worker.listen(tell):
                    continue
                del running[worker.pipe]
                idle.append(worker.core)
                if read_done(out, worker.job) is None:
                    failed.append(f"{worker.job.id}: {worker.complaint()}")
                else:
                    tell(worker.job, 1.0)
    finally:
        for worker in running.values():
            worker.process.terminate()
        for worker in running.values():
            worker.process.join(PATIENCE)
            worker.process.kill()
            worker.process.join()
    if failed:
        raise HoldfastError(
            f"{len(failed)} of {len(jobs)} jobs failed, the first is {failed[0]};"
            " start again to do what is missing"
        )


@dataclass
class _Worker:
    job: Job
    core: int
    process: SpawnProcess
    pipe: Connection
    said: str = ""

    def listen(self, tell: Tell) -> bool:
        """Hear one message; return False when there will be no more."""
        try:
            message = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            self.pipe.close()
            return False
        if isinstance(message, float):
            tell(self.job, min(message, 0.99))
        else:
            self.said = str(message)
        return True

    def complaint(self) -> str:
        return self.said or f"its process ended with {self.process.exitcode}"


def _start(job: Job, out: Path, core: int) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=labour, args=(job.text, out, core, theirs), daemon=True)
    # It inherits that Ctrl-C is held back: we are interrupted, and stop it.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        theirs.close()  # so that the end of the process is the end of the pipe
    return _Worker(job, core, process, ours)
