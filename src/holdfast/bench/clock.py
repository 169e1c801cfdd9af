"""Timing for ratios: contenders take turns, so that a busy moment hits them alike."""

import time
from collections.abc import Callable, Mapping

Work = Callable[[], object]


def best_times(
    contenders: Mapping[str, Work], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the shortest time of each over the rounds, in seconds."""
    best = dict.fromkeys(contenders, float("inf"))
    for work in contenders.values():
        work()
    for _ in range(rounds):
        for name, work in contenders.items():
            start = clock()
            work()
            best[name] = min(best[name], clock() - start)
    return best


def best_rates(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the highest rate of each: what it says it has done, per second."""
    best = dict.fromkeys(contenders, 0.0)
    for _ in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            done = work()
            best[name] = max(best[name], done / (time.perf_counter() - start))
    return best
