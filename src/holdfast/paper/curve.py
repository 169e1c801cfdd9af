"""Training curves: moving averages as in the paper, at as many points as a figure shows."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast import atomic
from holdfast.errors import MalformedError
from holdfast.model.arrays import FloatArray

WINDOW = 30  # episodes of the moving average
MAX_POINTS = 120
MAX_BYTES = 1 << 26


@dataclass(frozen=True)
class Curve:
    """Moving averages by episode; a column is empty if the method has no such figure."""

    episode: tuple[int, ...]
    returns: tuple[float, ...]
    multiplier: tuple[float, ...]


def read_curve(path: Path) -> Curve:
    """Return the curve of a finished training."""
    content = atomic.read(path, at_most=MAX_BYTES)
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        columns = {
            name: np.array([float(row[name]) for row in rows])
            for name in ("return", "multiplier")
            if rows and name in rows[0]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedError(f"{path} is not the curve of a training: {error}") from error
    ends = _shown_episodes(len(rows))
    return Curve(
        episode=tuple(int(end) for end in ends),
        returns=_moving_average(columns.get("return"), ends),
        multiplier=_moving_average(columns.get("multiplier"), ends),
    )


def _shown_episodes(count: int) -> np.ndarray:
    """Return the episodes to show, including the last."""
    first = WINDOW if count >= WINDOW else 1  # a quick run is shorter than a window
    return np.unique(np.linspace(first, count, MAX_POINTS).round().astype(np.int64))


def _moving_average(figures: FloatArray | None, ends: np.ndarray) -> tuple[float, ...]:
    if figures is None or not len(figures):
        return ()
    sums = np.concatenate([[0.0], np.cumsum(figures)])
    starts = np.maximum(ends - WINDOW, 0)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return tuple(float(f"{mean:.5g}") for mean in means)
