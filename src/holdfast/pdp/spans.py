"""Sets of blocks as ascending spans: a million neighbours are one pair of numbers."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]  # from the first number up to the second


@dataclass(frozen=True)
class Spans:
    """Blocks, as ascending spans of which no two overlap or touch. Iterates over the spans."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Iterable[int]]) -> Self:
        """Return the union of these spans, whatever their order."""
        merged: list[Span] = []
        for start, stop in sorted((start, stop) for start, stop in spans if start < stop):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        return cls(tuple(merged))

    @classmethod
    def of_blocks(cls, blocks: Iterable[int] | NDArray[np.int64]) -> Self:
        """Return the runs of neighbours among ascending blocks."""
        numbers = np.asarray(blocks if isinstance(blocks, np.ndarray) else list(blocks), np.int64)
        if not len(numbers):
            return cls()
        borders = np.flatnonzero(np.diff(numbers) != 1)
        starts = numbers[np.concatenate([[0], borders + 1])].tolist()
        stops = (numbers[np.concatenate([borders, [len(numbers) - 1]])] + 1).tolist()
        return cls(tuple(zip(starts, stops, strict=True)))

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

    def __bool__(self) -> bool:
        return bool(self.spans)

    @property
    def count(self) -> int:
        """How many blocks these are."""
        return sum(stop - start for start, stop in self.spans)

    @property
    def hull(self) -> Span:
        """The span from the first block to the last."""
        return self.spans[0][0], self.spans[-1][1]

    @property
    def blocks(self) -> NDArray[np.int64]:
        """Every block by its number."""
        runs = [np.arange(start, stop, dtype=np.int64) for start, stop in self.spans]
        return np.concatenate(runs) if runs else np.zeros(0, np.int64)

    def shift(self, by: int) -> "Spans":
        return Spans(tuple((start + by, stop + by) for start, stop in self.spans))

    def within(self, start: int, stop: int) -> "Spans":
        """Return those of the blocks that lie in this span."""
        first = max(bisect_left(self.spans, (start,)) - 1, 0)
        near = self.spans[first : bisect_left(self.spans, (stop,))]
        return Spans(tuple((max(a, start), min(b, stop)) for a, b in near if start < min(b, stop)))

    def coalesce(self, gap: int) -> "Spans":
        """Return spans that also have what lies between, where that is at most `gap` blocks."""
        wider = Spans.of((start, stop + gap) for start, stop in self.spans)
        return Spans(tuple((start, stop - gap) for start, stop in wider))

    def join(self, *others: "Spans") -> "Spans":
        """Return all blocks of these sets."""
        if not any(others):
            return self
        return Spans.of(span for spans in (self, *others) for span in spans)

    def without(self, other: "Spans") -> "Spans":
        """Return the blocks that the other set doesn't have."""
        left: list[Span] = []
        cuts = iter((*other.spans, (2**63, 2**63)))
        cut_start, cut_stop = next(cuts)
        for start, stop in self.spans:
            at = start
            while at < stop:
                while cut_stop <= at:
                    cut_start, cut_stop = next(cuts)
                if at < cut_start:
                    left.append((at, min(stop, cut_start)))
                at = stop if cut_start >= stop else cut_stop
        return Spans(tuple(left))

    def split(self, blocks: int, spans: int) -> Iterator["Spans"]:
        """Divide into parts, none of which reaches across a multiple of `blocks`.

        A part has at most that many `spans`.
        """
        part: list[Span] = []
        for start, stop in self.spans:
            at = start
            while at < stop:
                border = at - at % blocks + blocks
                if part and (part[0][0] // blocks != at // blocks or len(part) == spans):
                    yield Spans(tuple(part))
                    part = []
                part.append((at, min(stop, border)))
                at = border
        if part:
            yield Spans(tuple(part))


EMPTY = Spans()
