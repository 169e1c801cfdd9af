"""What size classes cost: the difference from one filter per size; and how long inference takes."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.inference import FLEET
from benchmarks.mixed_log import mixed_log
from holdfast.inference.confidence import confidence
from holdfast.inference.fit import fit
from holdfast.inference.size_classes import size_classes
from holdfast.model.scenario import PAPER

RANGES = ((30, 60), (1000, 2000), (30_000, 60_000))  # blocks, of fleets whose error is measured
SIZES = 16  # in each range, and two holdings of each size
AUDITS = 10  # of each of these holdings
TIMED_AUDITS = 20  # of each holding of fleets that are timed
FIT_HOLDINGS = 256  # as many as the service fits to by itself
EVERY_SIZE = 1.0


def measure(*, sizes: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Return the largest differences for each range of sizes, and the time for each fleet."""
    errors = {}
    for low, high in RANGES:
        say(f"{2 * SIZES} holdings of {low} to {high} blocks, in size classes and without")
        errors[f"{low} to {high} blocks"] = error(low, high)
    seconds = {}
    for name, blocks in fleets(sizes).items():
        say(f"{name}, timed")
        seconds[name] = times(blocks)
    return {"errors": errors, "seconds": seconds}


def fleets(sizes: int) -> dict[str, list[int]]:
    """Return fleets by name: the number of blocks of each holding."""
    many = np.unique(np.geomspace(200, 200_000, sizes).astype(int)).tolist()
    few = np.unique(np.geomspace(200, 100_000, 20).astype(int)).tolist()
    return {
        "20 holdings of one size": [4611] * 20,
        "20 holdings of 20 sizes": few,
        f"{len(many)} holdings of {len(many)} sizes": many,
    }


def error(low: int, high: int) -> dict[str, float]:
    """Return how far figures in size classes are from those of one filter per size."""
    blocks = np.unique(np.geomspace(low, high, SIZES).astype(int)).tolist() * 2
    log = mixed_log(FLEET, blocks, AUDITS, seed=3)
    fitted, fitted_in_classes = fit(log, PAPER, max_ratio=EVERY_SIZE), fit(log, PAPER)
    exact, ours = confidence(log, fitted, max_ratio=EVERY_SIZE), confidence(log, fitted)
    parameters = [
        (fitted.parameters[name], fitted_in_classes.parameters[name]) for name in fitted.hidden
    ]
    bounds = np.abs(ours.at_most - exact.at_most)
    return {
        "at_most": float(bounds.max()),
        "at_most_mean_relative": float(bounds.sum() / exact.at_most.sum()),
        "damaged": float(np.abs(ours.damaged - exact.damaged).max()),
        "fleet_at_most": abs(ours.fleet_at_most - exact.fleet_at_most),
        "miss_rate": abs(ours.miss_rate.value - exact.miss_rate.value),
        "miss_rate_half_width": (exact.miss_rate.high - exact.miss_rate.low) / 2,
        "parameters_in_interval_widths": max(
            abs(one.value - other.value) / (one.high - one.low) for one, other in parameters
        ),
    }


def times(blocks: list[int]) -> dict[str, float]:
    """Return processor time of a fit, as the service makes one by itself, and of confidence."""
    log = mixed_log(FLEET, blocks, TIMED_AUDITS)
    some = mixed_log(FLEET, blocks[:: max(1, len(blocks) // FIT_HOLDINGS)], TIMED_AUDITS)
    start = time.process_time()
    fitted = fit(some, PAPER)
    between = time.process_time()
    confidence(log, fitted)
    return {
        "classes": len(np.unique(size_classes(np.array(blocks)))),
        "fit": between - start,
        "confidence": time.process_time() - between,
    }
