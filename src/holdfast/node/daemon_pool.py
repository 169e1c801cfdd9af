"""Work in threads that delay no exit: one that hangs is left behind."""

import contextvars
import time
from collections.abc import Callable, Iterable
from functools import partial
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from typing import Any, TypeVar

from holdfast.node.time_limit import seconds_left

J = TypeVar("J")
R = TypeVar("R")

STALL_SECONDS = 120.0  # without any result, where the time is not limited otherwise


class DaemonPool:
    """Up to `size` threads, started when there is work for them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = Lock()
        self._threads = self._unfinished = 0

    def map(self, work: Callable[[J], R], jobs: Iterable[J]) -> list[R]:
        """Return the results of all jobs, in their order.

        After an error no further job begins, and the error is raised. `TimeoutError` is raised if
        the time that the caller has is over, or if nothing comes for too long; what runs then is
        abandoned.
        """
        batch = _Batch(work, list(jobs))
        self._start_threads(len(batch.jobs))
        for index in range(len(batch.jobs)):
            self._tasks.put(partial(contextvars.copy_context().run, batch.run, index))
        return batch.results()

    def call(self, work: Callable[[], R]) -> R:
        """Return what `work` returns, or raise `TimeoutError` as `map` does."""
        return self.map(lambda _job: work(), [None])[0]

    def _start_threads(self, jobs: int) -> None:
        with self._lock:
            self._unfinished += jobs
            while self._threads < min(self._size, self._unfinished):
                self._threads += 1
                Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            self._tasks.get()()
            with self._lock:
                self._unfinished -= 1


class _Batch:
    """Jobs that were given together."""

    def __init__(self, work: Callable[[Any], Any], jobs: list[Any]) -> None:
        self.jobs = jobs
        self._work = work
        self._results: list[Any] = [None] * len(jobs)
        self._changed = Condition()
        self._done = 0
        self._error: BaseException | None = None
        self._abandoned = False

    def run(self, index: int) -> None:
        if self._abandoned:
            return
        try:
            result, error = self._work(self.jobs[index]), None
        except BaseException as raised:  # noqa: BLE001 - raised where the results are awaited
            result, error = None, raised
        with self._changed:
            self._results[index] = result
            self._done += 1
            if error is not None:
                self._error, self._abandoned = self._error or error, True
            self._changed.notify()

    def results(self) -> list[Any]:
        try:
            with self._changed:
                while self._done < len(self.jobs) and self._error is None:
                    self._wait()
        finally:
            self._abandoned = True
        if self._error is not None:
            raise self._error
        return self._results

    def _wait(self) -> None:
        limit = min(seconds_left(), STALL_SECONDS)
        done, over = self._done, time.monotonic() + limit
        while self._done == done and self._error is None:
            left = over - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._changed.wait(left)
