"""Work side by side: each piece in a process of its own, pinned to a core, that tells its news."""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

from holdfast.errors import HoldfastError

PATIENCE = 10.0  # seconds a stopped process has to close its files

NEWS, DONE, FAILED = range(3)

K = TypeVar("K")

Work = Callable[[Callable[[Any], None]], None]  # is given `tell`, which sends news; can be pickled


def cores() -> list[int]:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def end_with_parent(end: Callable[[], None]) -> None:
    """Call `end` once the process that started this one has ended, if it was started by one."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            end()

    threading.Thread(target=watch, daemon=True).start()


def side_by_side(
    pieces: Sequence[tuple[K, Work]], at_once: int | None, hear: Callable[[K, Any], None]
) -> Iterator[tuple[K, str | None]]:
    """Do the pieces in their order; yield the name of each as it ends, and why if it failed.

    One runs on each core unless told otherwise. Whoever stops listening stops them all.
    """
    # The cores are taken. A child reads it when it imports NumPy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    resource_tracker.ensure_running()  # which, while it starts, lets through what we hold back
    places = cores()
    free = deque(places[index % len(places)] for index in range(at_once or len(places)))
    waiting = deque(pieces)
    team: dict[Connection, _Worker[K]] = {}
    try:
        while waiting or team:
            while waiting and free:
                worker = _start(*waiting.popleft(), free.popleft())
                team[worker.pipe] = worker
            for pipe in wait(list(team)):
                worker = team[pipe]  # type: ignore[index] # it waits for what it was given
                kind, message = worker.next()
                if kind == NEWS:
                    hear(worker.name, message)
                    continue
                del team[worker.pipe]
                worker.end()
                free.append(worker.core)
                yield worker.name, message if kind == FAILED else None
    finally:
        for worker in team.values():
            worker.process.terminate()
        for worker in team.values():
            worker.end()


@dataclass(frozen=True)
class _Worker(Generic[K]):
    """A process with a pipe of its own, so that its death can't block the others'."""

    name: K
    core: int
    process: SpawnProcess
    pipe: Connection

    def next(self) -> tuple[int, Any]:
        try:
            kind, message = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(PATIENCE)
            return FAILED, f"its process ended with {self.process.exitcode}: was it killed?"
        return kind, message

    def end(self) -> None:
        self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _start(name: K, work: Work, core: int) -> _Worker[K]:
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_begin, args=(work, core, theirs), daemon=True)
    # It inherits that Ctrl-C is held back: we are interrupted, and stop it.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        theirs.close()  # so that the end of the process is the end of the pipe
    return _Worker(name, core, process, ours)


def _begin(work: Work, core: int, pipe: Connection) -> None:
    # Leave in order when stopped, or Python complains of semaphores that were left behind.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(1))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    try:
        work(lambda news: pipe.send((NEWS, news)))
        pipe.send((DONE, None))
    except (BrokenPipeError, ConnectionResetError):
        pass  # who started us is gone, and so is the reason to go on
    except (HoldfastError, OSError, MemoryError) as error:
        pipe.send((FAILED, str(error) or type(error).__name__))
