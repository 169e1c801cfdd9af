"""Training curves, smoothed as in the paper and thinned to what a figure can show."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast import atomic
from holdfast.errors import MalformedError
from holdfast.model.arrays import FloatArray

WINDOW = 30  # episodes of the moving average
MOST_POINTS = 120
MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class Curve:
    """Moving averages by episode; a column is empty where the method has no such figure."""

    episode: tuple[int, ...]
    returns: tuple[float, ...]
    multiplier: tuple[float, ...]


def read_curve(path: Path) -> Curve:
    """Return the curve that a training left."""
    content = atomic.read(path, at_most=MOST_BYTES)
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        columns = {
            name: np.array([float(row[name]) for row in rows])
            for name in ("return", "multiplier")
            if rows and name in rows[0]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedError(f"{path} is not the curve of a training: {error}") from error
    ends = _ends(len(rows))
    return Curve(
        episode=tuple(int(end) for end in ends),
        returns=_thinned(columns.get("return"), ends),
        multiplier=_thinned(columns.get("multiplier"), ends),
    )


def _ends(count: int) -> np.ndarray:
    """Return the episodes to keep, the last among them."""
    first = WINDOW if count >= WINDOW else 1  # of a taste there is less than a window
    return np.unique(np.linspace(first, count, MOST_POINTS).round().astype(np.int64))


def _thinned(figures: FloatArray | None, ends: np.ndarray) -> tuple[float, ...]:
    if figures is None or not len(figures):
        return ()
    sums = np.concatenate([[0.0], np.cumsum(figures)])
    starts = np.maximum(ends - WINDOW, 0)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return tuple(float(f"{mean:.5g}") for mean in means)
