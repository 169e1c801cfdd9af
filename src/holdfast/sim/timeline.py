"""An episode drawn as text: its audits, the damage that they met, and what they detected."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.model.scenario import Scenario

WIDTH = 73  # columns: five units each in an episode of 365
MAX_EVENTS = 10
LEVELS = "▁▂▃▄▅▆▇█"
CLEAN, MISS, DETECTION = ".", "x", "D"


@dataclass(frozen=True)
class _Audit:
    time: int
    interval: int
    mark: str
    corrupted: int
    since: int  # the unit in which the damage began
    gas: float


class Timeline:
    """The audits of one episode so far."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._audits: list[_Audit] = []

    def record(self, interval: int, info: Mapping[str, Any]) -> None:
        """Add one audit, from the `info` of its step."""
        hidden = info["hidden"]
        mark = DETECTION if info["detection"] else MISS if info["miss"] else CLEAN
        corrupted, since = hidden["corrupted_at_audit"], hidden["time"] - hidden["delay"]
        self._audits.append(_Audit(hidden["time"], interval, mark, corrupted, since, info["gas"]))

    def draw(self, *, malicious: bool) -> str:
        """Return the episode as lines of text."""
        scenario, kind = self._scenario, "malicious" if malicious else "honest"
        time = self._audits[-1].time if self._audits else 0
        marks = [audit.mark for audit in self._audits]
        gas = math.fsum(audit.gas for audit in self._audits)
        counts = f"{marks.count(DETECTION)} detections (D), {marks.count(MISS)} misses (x)"
        lines = [
            f"{scenario.name}: {kind} node, unit {time} of {scenario.horizon}",
            f"{len(marks)} audits, gas {gas:.2f}, {counts}",
            f"audits  {self._marks()}",
            f"damage  {self._damage()}",
            f"unit    0{scenario.horizon:>{WIDTH - 1}}",
            *self._events(),
        ]
        return "\n".join(lines) + "\n"

    def _column(self, unit: float) -> int:
        return min(int(unit * WIDTH / self._scenario.horizon), WIDTH - 1)

    def _marks(self) -> str:
        """Return the audits by column; of several the detection counts, then the miss."""
        columns = [" "] * WIDTH
        for audit in self._audits:
            column = self._column(audit.time - 1)
            columns[column] = max(columns[column], audit.mark, key=" .xD".index)
        return "".join(columns).rstrip()

    def _damage(self) -> str:
        """Return the damaged share of the blocks by column, in eight steps of a logarithm."""
        columns = [" "] * WIDTH
        for audit in self._audits:
            if audit.corrupted:
                begin = max(audit.since, audit.time - audit.interval)
                for column in range(self._column(begin), self._column(audit.time - 1) + 1):
                    columns[column] = max(columns[column], self._level(audit.corrupted))
        return "".join(columns).rstrip()

    def _level(self, corrupted: int) -> str:
        height = math.log(corrupted) / math.log(max(self._scenario.blocks, 2))
        return LEVELS[round(height * (len(LEVELS) - 1))]

    def _events(self) -> Iterator[str]:
        """Yield the last encounters, one per line."""
        encounters = [audit for audit in self._audits if audit.mark != CLEAN]
        if len(encounters) > MAX_EVENTS:
            yield f"the last {MAX_EVENTS} of {len(encounters)} audits that met damage:"
        for audit in encounters[-MAX_EVENTS:]:
            result = "detected" if audit.mark == DETECTION else "missed"
            yield (
                f"unit {audit.time}: {result}, {audit.corrupted:,} of"
                f" {self._scenario.blocks:,} blocks, damaged since unit {audit.since}"
            )
