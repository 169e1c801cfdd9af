"""Child processes: started, pinned to a core, ended with their parent, and stopped."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Self

CONTEXT = get_context("spawn")
# Options of glibc's mallopt, and from how many bytes on each has an effect.
_TRIM, _MAP = (-1, 64 << 20), (-3, 32 << 20)


def cores() -> list[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def keep_freed_memory() -> None:
    """Keep freed buffers in this process for the next ones.

    By default glibc returns them to the kernel, which clears every page anew: reading the blocks of
    a proof took ten times as long.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        libc = ctypes.CDLL(None)
        for option in (_TRIM, _MAP):
            libc.mallopt(*option)


def end_with_parent(end: Callable[[], None]) -> None:
    """Call `end` when the parent of this process ends, if a process of ours is its parent."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            end()

    threading.Thread(target=watch, daemon=True).start()


def start_thread(work: Callable[..., object], *args: Any) -> threading.Thread:
    """Start a daemon, so that a second signal to stop doesn't wait for it."""
    thread = threading.Thread(target=work, args=args, daemon=True)
    thread.start()
    return thread


def join_threads(threads: Collection[threading.Thread], seconds: float) -> None:
    """Wait until the threads have ended, but no longer than that in all."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def leave_at_once() -> None:
    """End this process now if a pool still has threads: Python would wait for them."""
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    if any(not thread.daemon for thread in others):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def stop_all(processes: Collection[SpawnProcess], grace_seconds: float) -> None:
    """Terminate the processes, and kill those that still run after the grace period."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + grace_seconds
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        process.kill()
        process.join()


@dataclass(frozen=True, eq=False)
class Child:
    """A process with a pipe of its own, so that its death can't block the others'."""

    process: SpawnProcess
    pipe: Connection

    def stop(self, grace_seconds: float = 0.0) -> None:
        self.pipe.close()
        stop_all([self.process], grace_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_child(work: Callable[..., None], *args: Any, core: int | None = None) -> Child:
    """Call `work(pipe, *args)` in a new process, which ends when this one does.

    Ctrl-C does not reach it: this process is interrupted, and stops it.
    """
    resource_tracker.ensure_running()  # which would unblock the signal when it starts
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_begin, args=(work, core, theirs, *args), daemon=True)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the child inherits it
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()  # so that the end of the process is the end of the pipe
    return Child(process, ours)


def _begin(work: Callable[..., None], core: int | None, pipe: Connection, *args: Any) -> None:
    end_with_parent(lambda: os._exit(1))
    keep_freed_memory()
    # Leave in order when stopped, or Python complains of semaphores that were left behind.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(1))
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent closed the pipe
        work(pipe, *args)
