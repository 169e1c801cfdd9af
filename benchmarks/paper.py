"""What each experiment of the paper takes to reproduce: time, processor time and memory."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from holdfast.errors import HoldfastError

EXPERIMENTS = {
    "table1": ("table1",),
    "table1-drift": ("table1", "--scenario", "drift"),
    "decomposition": ("decomposition",),
    "ablation": ("ablation",),
    "sensitivity": ("sensitivity",),
    "shift": ("shift",),
    "frontier": ("frontier",),
}
PROGRAM = "import sys; from holdfast.cli import main; sys.exit(main())"

Figures = dict[str, float]


def measure(out: Path, *, quick: bool, say: Callable[[str], None]) -> dict[str, Figures]:
    """Reproduce every experiment in turn, each in a folder of its own, and return what it took."""
    figures = {}
    for name, words in EXPERIMENTS.items():
        say(f"reproducing {name}")
        options = ["--out", str(out / name), *(["--quick"] if quick else [])]
        figures[name] = cost_of(["paper", *words, *options])
    return figures


def cost_of(words: Sequence[str]) -> Figures:
    """Run one of our commands; return its cost, that of its processes included.

    The memory is that of the largest process: one runs on each core.
    """
    begin = perf_counter()
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", PROGRAM, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise HoldfastError(f"holdfast {' '.join(words)} ended with {process.returncode}")
    return {
        "seconds": perf_counter() - begin,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "largest_process_mib": usage.ru_maxrss / 1024,
    }
