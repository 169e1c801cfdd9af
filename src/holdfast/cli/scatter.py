"""Points on a plane, drawn with letters for a terminal."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 60, 14


class Mark(NamedTuple):
    x: float
    y: float
    letter: str


def scatter(
    marks: Sequence[Mark], across: Callable[[float], str], upwards: Callable[[float], str]
) -> list[str]:
    """Return the lines of a plot by logarithms; of two marks in one place the last shows.

    `across` and `upwards` write the figures at the ends of the axes.
    """
    x, y = [math.log(mark.x) for mark in marks], [math.log(mark.y) for mark in marks]
    rows = [[" "] * WIDTH for _ in range(HEIGHT)]
    for at, mark in enumerate(marks):
        rows[HEIGHT - 1 - _place(y[at], y, HEIGHT)][_place(x[at], x, WIDTH)] = mark.letter
    top, bottom = (upwards(math.exp(end)) for end in (max(y), min(y)))
    labels = [top, *[""] * (HEIGHT - 2), bottom]
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} |{''.join(row)}" for label, row in zip(labels, rows, strict=True)]
    low, high = (across(math.exp(end)) for end in (min(x), max(x)))
    lines.append(f"{'':{margin}} +{'-' * WIDTH}")
    lines.append(f"{'':{margin}}  {low}{high:>{WIDTH - len(low)}}")
    return [line.rstrip() for line in lines]


def _place(value: float, values: Sequence[float], cells: int) -> int:
    low, high = min(values), max(values)
    return round((cells - 1) * (value - low) / (high - low)) if high > low else 0
