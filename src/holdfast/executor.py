"""Runs the jobs of a sweep through a `concurrent.futures.Executor`, by default in local processes.

`sweep` accepts any executor. `LocalExecutor` runs jobs in processes of this machine, one for each
core. A job tells how far it is with `report_progress`.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import holdfast
from holdfast.cluster import stop_if_cancelled
from holdfast.errors import HoldfastError, InputError
from holdfast.processes import Child, cores, start_child

STOP_SECONDS = 10.0  # that a stopped process has to close its files

J = TypeVar("J")
R = TypeVar("R")
P = ParamSpec("P")

OnProgress = Callable[[Any], None]

PROGRESS, DONE, FAILED = range(3)


class DiedError(HoldfastError):
    """The process of a job ended before the job did."""


def _ignore(_message: Any) -> None:
    pass


_on_progress: ContextVar[OnProgress] = ContextVar("on_progress", default=_ignore)


def report_progress(message: Any) -> None:
    """Send a message to the `on_progress` of the sweep that this job belongs to."""
    _on_progress.get()(message)


@contextmanager
def progress_to(on_progress: OnProgress) -> Iterator[None]:
    """Send the progress of a job that runs here to a function."""
    token = _on_progress.set(on_progress)
    try:
        yield
    finally:
        _on_progress.reset(token)


def sweep(
    executor: Executor | None,
    function: Callable[[J], R],
    jobs: Sequence[J],
    on_progress: Callable[[J, Any], None] = lambda _job, _message: None,
) -> Iterator[tuple[J, Future[R]]]:
    """Run `function(job)` for each job; yield each job with its future as it ends.

    Without an executor, the jobs run here, one after the other.
    Function, jobs and results must be picklable. Progress is reported by local jobs only. Leave the
    context of the executor to stop jobs that still run.
    """
    if executor is None:
        for job in jobs:
            yield job, _run_here(function, job, partial(on_progress, job))
        return
    updates: SimpleQueue[tuple[J, Any, Future[R] | None]] = SimpleQueue()

    def submit(job: J) -> None:
        if isinstance(executor, LocalExecutor):
            future = executor.submit_reporting(
                lambda message: updates.put((job, message, None)), function, job
            )
        else:
            future = executor.submit(_run_elsewhere, holdfast.__version__, function, job)
        future.add_done_callback(lambda future: updates.put((job, None, future)))

    for job in jobs:
        submit(job)
    remaining = len(jobs)
    while remaining:
        job, message, future = updates.get()
        if future is None:
            on_progress(job, message)
        else:
            remaining -= 1
            yield job, future


def result_of(future: Future[R], name: str) -> R:
    """Return the result of a job; raise a HoldfastError if it failed."""
    error = None if future.cancelled() else future.exception()
    if isinstance(error, HoldfastError) and not isinstance(error, DiedError):
        raise error
    if reason := failure(future):
        raise HoldfastError(f"{name} failed: {reason}") from error
    return future.result()


def failure(future: Future[Any]) -> str | None:
    """Return why a job failed, or None if it did not."""
    error = None if future.cancelled() else future.exception()
    if future.cancelled() or isinstance(error, CancelledError):
        return "the connection to the scheduler was lost"
    return None if error is None else str(error) or type(error).__name__


def _run_here(function: Callable[[J], R], job: J, on_progress: OnProgress) -> Future[R]:
    future: Future[R] = Future()
    try:
        with progress_to(on_progress):
            future.set_result(function(job))
    except HoldfastError as error:
        future.set_exception(error)
    return future


def _run_elsewhere(version: str, function: Callable[[J], R], job: J) -> R:
    """Run a job on a machine whose installation may differ from ours."""
    if version != holdfast.__version__:
        raise InputError(
            f"a worker runs Holdfast {holdfast.__version__}: install {version} there as well"
        )
    with progress_to(lambda _message: stop_if_cancelled()):
        return function(job)


class _Call(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _Submitted(NamedTuple):
    call: _Call
    future: Future[Any]
    on_progress: OnProgress


class LocalExecutor(Executor):
    """Runs jobs in processes of this machine, one for each core by default.

    No process is pinned to a core: others may run here as well, and the kernel knows which cores
    are free.

    A process that dies fails its job with `DiedError`, and the next job gets a new process. An
    exception that leaves the context stops all jobs.
    """

    def __init__(self, at_once: int | None = None) -> None:
        # There is one process for each core. A child reads this when it imports NumPy.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        self._queue: SimpleQueue[_Submitted | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._children: set[Child] = set()
        self._closed = self._stopped = False
        self._threads = [
            threading.Thread(target=self._serve, daemon=True)
            for _ in range(at_once or len(cores()))
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return self.submit_reporting(_ignore, function, *args, **kwargs)

    def submit_reporting(
        self,
        on_progress: OnProgress,
        function: Callable[P, R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Future[R]:
        """Submit a job; `on_progress` is called from another thread."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[R] = Future()
        self._queue.put(_Submitted(_Call(function, args, kwargs), future, on_progress))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more jobs; with `cancel_futures`, stop also those that run."""
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)
        if cancel_futures:
            self._stop()
        if wait:
            for thread in self._threads:
                thread.join()

    def _stop(self) -> None:
        """Terminate the processes, and kill those that still run after the grace period."""
        with self._lock:
            self._stopped = True
            for child in self._children:
                child.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            for child in self._children:
                child.process.kill()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown(cancel_futures=error is not None)

    def _serve(self) -> None:
        """Have the jobs of the queue done, one at a time, by a process."""
        child: Child | None = None
        while (submitted := self._queue.get()) is not None:
            _, future, on_progress = submitted
            if self._stopped:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                child = child or self._start()
                future.set_result(_done_by(child, submitted.call, on_progress))
            except DiedError as error:
                self._end(child)
                child = None
                future.set_exception(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the future tells it
                future.set_exception(error)
        self._end(child)

    def _start(self) -> Child:
        with self._lock:
            if self._stopped:
                raise DiedError("it was stopped before it began")
            child = start_child(_work)
            self._children.add(child)
            return child

    def _end(self, child: Child | None) -> None:
        if child is not None:
            child.stop(STOP_SECONDS)
            with self._lock:
                self._children.discard(child)


def _done_by(child: Child, call: _Call, on_progress: OnProgress) -> Any:
    """Return what a child's call returns."""
    try:
        child.pipe.send(call)
        kind, content = child.pipe.recv()
        while kind == PROGRESS:
            on_progress(content)
            kind, content = child.pipe.recv()
    except (EOFError, BrokenPipeError, ConnectionResetError) as error:
        child.process.join(STOP_SECONDS)
        code = child.process.exitcode
        raise DiedError(f"its process ended with {code}: was it killed?") from error
    if kind == FAILED:
        raise content
    return content


def _work(pipe: Connection) -> None:
    """Do the jobs that come in, in a child."""
    with progress_to(lambda message: pipe.send((PROGRESS, message))):
        while True:
            function, args, kwargs = pipe.recv()
            try:
                answer = DONE, function(*args, **kwargs)
            except (HoldfastError, OSError, MemoryError) as error:
                answer = FAILED, error
            pipe.send(answer)
