"""Timing for ratios: contenders take turns, so that a busy moment hits them alike."""

import ctypes
import time
from collections.abc import Callable, Mapping

from holdfast.errors import InputError

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


def cpu_clock_of(process_id: int) -> Callable[[], float]:
    """Return a clock of the processor time that another process of this machine has used."""
    number = ctypes.c_int()
    find_clock = getattr(ctypes.CDLL(None), "clock_getcpuclockid", None)  # POSIX, not on macOS
    if find_clock is None or find_clock(process_id, ctypes.byref(number)):
        raise InputError("this system has no clock for the processor time of another process")
    return lambda: time.clock_gettime(number.value)
