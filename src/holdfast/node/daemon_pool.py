"""Work in threads that delay no exit: one that hangs is left behind."""

import contextvars
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from threading import Condition, Lock, Thread
from typing import Any, TypeVar

from holdfast.node.time_limit import seconds_left

J = TypeVar("J")
R = TypeVar("R")

STALL_SECONDS = 120.0  # without any result, where the time is not limited otherwise
IDLE_SECONDS = 5.0  # after which a thread ends
MAX_WAIT_SECONDS = 3600.0  # at once: no thread can wait for infinitely long


class DaemonPool:
    """Up to `size` threads, started when there is work for them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = Lock()
        self._threads = self._unfinished = 0

    def map(
        self,
        work: Callable[[J], R],
        jobs: Iterable[J],
        *,
        stall_seconds: float = STALL_SECONDS,
    ) -> list[R]:
        """Return the results of all jobs, in their order.

        After an error no further job begins, and the error is raised. `TimeoutError` is raised if
        the time that the caller has is over, or if no job ends for too long; what runs then is
        abandoned.
        """
        batch = _Batch(work, list(jobs), stall_seconds)
        self._start_threads(len(batch.jobs))
        for index in range(len(batch.jobs)):
            self._tasks.put(partial(contextvars.copy_context().run, batch.run, index))
        return batch.results()

    def call(self, work: Callable[[], R]) -> R:
        """Return what `work` returns, or raise `TimeoutError` as `map` does."""
        return self.map(lambda _job: work(), [None])[0]

    def submit(self, work: Callable[[], R]) -> Future[R]:
        """Begin work whose result is asked for later."""
        future: Future[R] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                    future.set_exception(error)

        self._start_threads(1)
        self._tasks.put(partial(contextvars.copy_context().run, run))
        return future

    def _start_threads(self, jobs: int) -> None:
        with self._lock:
            self._unfinished += jobs
            while self._threads < min(self._size, self._unfinished):
                self._threads += 1
                Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                task = self._tasks.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._unfinished:
                        continue
                    self._threads -= 1
                    return
            task()
            with self._lock:
                self._unfinished -= 1


class _Batch:
    """Jobs that were given together."""

    def __init__(self, work: Callable[[Any], Any], jobs: list[Any], stall_seconds: float) -> None:
        self.jobs = jobs
        self._work, self._stall_seconds = work, stall_seconds
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
        limit = min(seconds_left(), self._stall_seconds)
        done, over = self._done, time.monotonic() + limit
        while self._done == done and self._error is None:
            left = over - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._changed.wait(min(left, MAX_WAIT_SECONDS))
