"""Work on many segments side by side, with the results in order and few of them in memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

J = TypeVar("J")
R = TypeVar("R")

LANES = 3  # two keep two cores busy, and one more waits for the disk


@contextmanager
def lanes(work: Callable[[J], R], jobs: Iterable[J], count: int = LANES) -> Iterator[Iterator[R]]:
    """Yield an iterator of the results of all jobs, `count` of which run at once.

    Where the context is left early, no further job begins.
    """
    waiting = iter(jobs)
    running: deque[Future[R]] = deque()

    def results() -> Iterator[R]:
        while True:
            running.extend(
                pool.submit(work, job) for job in islice(waiting, count + 1 - len(running))
            )
            if not running:
                return
            yield running.popleft().result()

    with ThreadPoolExecutor(count) as pool:
        try:
            yield results()
        finally:
            for future in running:
                future.cancel()


def run_in_lanes(work: Callable[[J], R], jobs: Iterable[J], count: int = LANES) -> Iterator[R]:
    """Yield the results of all jobs, in their order; after an error no further job begins."""
    with lanes(work, jobs, count) as results:
        yield from results
