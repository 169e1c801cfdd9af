"""Trainings side by side, each in a process of its own that is pinned to a core."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, StorageError
from holdfast.learn.learner import Figures
from holdfast.learn.training import Run, train


@dataclass(frozen=True)
class Job:
    run: Run
    folder: Path


# Hears what `training.Hear` does, and of which job.
Hear = Callable[[Job, str, float, Figures], None]


@dataclass(frozen=True)
class Worker:
    """A process of ours with a pipe of its own, so that its death can't block the others'."""

    job: Job
    core: int
    process: BaseProcess
    connection: Connection

    def news(self) -> tuple[str, float, Figures] | None:
        """Return what is going on, or None when the training has ended well."""
        try:
            news: Any = self.connection.recv()
        except (EOFError, OSError) as error:
            raise StorageError(
                f"the training in {self.job.folder} was killed, perhaps for want of memory:"
                " run the same command again to go on"
            ) from error
        if isinstance(news, str):
            raise StorageError(news)
        return news  # type: ignore[no-any-return]

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def train_all(jobs: Sequence[Job], processes: int | None, hear: Hear) -> None:
    """Run trainings, so many at a time or one per core; the first that fails ends them all.

    What is interrupted goes on when it is run again.
    """
    # The matrices are small and the cores taken. The child reads it when it imports NumPy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    resource_tracker.ensure_running()  # which, while it starts, lets through what we hold back
    cores = sorted(os.sched_getaffinity(0))
    free = deque(cores[index % len(cores)] for index in range(processes or len(cores)))
    waiting = deque(jobs)
    team: dict[Connection, Worker] = {}
    try:
        while waiting or team:
            while waiting and free:
                worker = _started(waiting.popleft(), free.popleft())
                team[worker.connection] = worker
            for connection in wait(list(team)):
                worker = team[connection]  # type: ignore[index] # it waits for what it was given
                news = worker.news()
                if news:
                    hear(worker.job, *news)
                else:
                    del team[worker.connection]
                    worker.end()
                    free.append(worker.core)
    finally:
        for worker in team.values():
            worker.end()


def _started(job: Job, core: int) -> Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, job, core), daemon=True)
    # It inherits that Ctrl-C is held back: we are interrupted, and stop it.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        theirs.close()
    return Worker(job, core, process, ours)


def _work(connection: Connection, job: Job, core: int) -> None:
    os.sched_setaffinity(0, {core})
    try:
        train(job.run, job.folder, lambda *news: connection.send(news))
        connection.send(None)
    except (BrokenPipeError, ConnectionResetError):
        pass  # whoever started us has ended
    except HoldfastError as error:
        connection.send(str(error))
    except OSError as error:
        connection.send(f"can't write in {job.folder}: {error.strerror}")
