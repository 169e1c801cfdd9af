"""Charts as the geometry of SVG: everything in per cent, so that they fit any width as they are.

Figures stay in their series, for the table that is under every chart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

GAP = 0.22  # of a column's place that stays empty
STEPS = (1, 2, 2.5, 5, 10)
LABELS = 4  # along the x axis, so that they fit a phone


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True)
class Series:
    kind: str  # its class in the stylesheet
    label: str
    values: Sequence[float]


def scale(highest: float) -> list[float]:
    """Return about four round marks from 0 up to at least the highest value."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * step for step in STEPS if size * step >= rough * (1 - 1e-9))
    return [step * at for at in range(math.ceil(highest / step - 1e-9) + 1)]


def rung(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"


@dataclass(frozen=True)
class Columns:
    """Stacked columns, one for each label."""

    title: str
    labels: Sequence[str]
    series: Sequence[Series]

    @cached_property
    def totals(self) -> list[float]:
        return [
            sum(values) for values in zip(*(series.values for series in self.series), strict=True)
        ]

    @cached_property
    def shown(self) -> list[Series]:
        """The series that have anything to show."""
        return [series for series in self.series if any(series.values)]

    @cached_property
    def _marks(self) -> list[float]:
        return scale(max(self.totals, default=0.0))

    @property
    def y_ticks(self) -> list[Tick]:
        return [Tick(100 - 100 * mark / self._marks[-1], rung(mark)) for mark in self._marks]

    @property
    def x_ticks(self) -> list[Tick]:
        count = len(self.labels)
        every = max(1, math.ceil(count / LABELS))
        first = (count - 1) % every  # the last is always named
        return [
            Tick(100 * (at + 0.5) / count, self.labels[at]) for at in range(first, count, every)
        ]

    @property
    def bars(self) -> list[Bar]:
        top, width = self._marks[-1], 100 / max(len(self.labels), 1)
        bars = []
        for at, label in enumerate(self.labels):
            below = 0.0
            for series in self.shown:
                value = series.values[at]
                height = 100 * value / top
                if value:
                    title = f"{label}: {series.label} {value:,.4g}"
                    y = 100 - below - height
                    x, wide = width * (at + GAP / 2), width * (1 - GAP)
                    bars.append(Bar(x, y, wide, height, series.kind, title))
                below += height
        return bars


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    kind: str
    title: str


@dataclass(frozen=True)
class Plane:
    """Points on a plane, which a line may join; both axes begin and end at round marks."""

    title: str
    points: Sequence[Point]
    x_marks: Sequence[tuple[float, str]]
    y_marks: Sequence[tuple[float, str]]
    line: Sequence[tuple[float, float]] = ()
    log: bool = False  # along x
    x_range: tuple[float, float] | None = None  # else from the first mark to the last

    @property
    def x_ticks(self) -> list[Tick]:
        return [Tick(self._x(value), label) for value, label in self.x_marks]

    @property
    def y_ticks(self) -> list[Tick]:
        return [Tick(self._y(value), label) for value, label in self.y_marks]

    @property
    def spots(self) -> list[Point]:
        return [Point(self._x(p.x), self._y(p.y), p.kind, p.title) for p in self.points]

    @property
    def path(self) -> str:
        """The line, for a picture of 100 by 100."""
        steps = [f"{self._x(x):.2f} {self._y(y):.2f}" for x, y in self.line]
        return f"M{'L'.join(steps)}" if steps else ""

    def _x(self, value: float) -> float:
        low, high = self.x_range or (self.x_marks[0][0], self.x_marks[-1][0])
        if self.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return 100 * (value - low) / (high - low)

    def _y(self, value: float) -> float:
        low, high = self.y_marks[0][0], self.y_marks[-1][0]
        return 100 - 100 * (value - low) / (high - low)
