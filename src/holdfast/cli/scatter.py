"""Points on a plane, drawn with letters for a terminal."""

import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 60, 14


class Mark(NamedTuple):
    x: float
    y: float
    letter: str


def scatter(marks: Sequence[Mark], across: str, upwards: str) -> list[str]:
    """Return the lines of a plot, x by logarithm and y from 0; of two in one place the last shows.

    `across` and `upwards` format the figures at the ends of the axes.
    """
    left, right = (math.log(end(mark.x for mark in marks)) for end in (min, max))
    top = max(mark.y for mark in marks)
    rows = [[" "] * WIDTH for _ in range(HEIGHT)]
    for mark in marks:
        column = _place(math.log(mark.x) - left, right - left, WIDTH)
        rows[HEIGHT - 1 - _place(mark.y, top, HEIGHT)][column] = mark.letter
    labels = [upwards.format(top), *[""] * (HEIGHT - 2), upwards.format(0)]
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} |{''.join(row)}" for label, row in zip(labels, rows, strict=True)]
    ends = [across.format(math.exp(end)) for end in (left, right)]
    axis = f"{ends[0]}{ends[1]:>{WIDTH - len(ends[0])}}"
    return [line.rstrip() for line in (*lines, f"{'':{margin}} +{'-' * WIDTH}")] + [
        f"{'':{margin}}  {axis}"
    ]


def _place(offset: float, span: float, cells: int) -> int:
    return round((cells - 1) * offset / span) if span else 0
