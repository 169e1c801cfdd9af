"""Timing for ratios: contenders take turns, so that a busy moment hits them alike."""

import time
from collections.abc import Callable, Mapping

Work = Callable[[], object]


def best_times(contenders: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Return the shortest time of each over the rounds, in seconds."""
    best = dict.fromkeys(contenders, float("inf"))
    for work in contenders.values():
        work()
    for _ in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best
