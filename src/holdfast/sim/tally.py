"""Counts of what happened in each episode, from which all measures are computed."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray, IntArray
from holdfast.sim.fleet import Nodes, StepResult


@dataclass(frozen=True)
class Tally:
    """Sums by episode, and one entry for each corruption event: damage from onset to repair."""

    malicious: BoolArray  # at the beginning
    gas: FloatArray
    audits: FloatArray
    detections: FloatArray
    misses: FloatArray
    detections_malicious: FloatArray  # by the type at the audit; the rest was honest then
    misses_malicious: FloatArray
    latency: FloatArray  # summed over the detections, each since the paper's onset
    exposure: FloatArray  # corrupted blocks x units
    undetected: FloatArray  # 1 where corruption is left at the end
    event_episode: IntArray
    event_delay: IntArray  # units from the true onset to the detection, or to the last audit
    event_detected: BoolArray

    @property
    def episodes(self) -> int:
        return len(self.malicious)


def concat_tallies(tallies: Sequence[Tally]) -> Tally:
    """Return one tally of all their episodes, numbered consecutively."""
    parts = {
        field.name: np.concatenate([getattr(tally, field.name) for tally in tallies])
        for field in fields(Tally)
    }
    first = np.cumsum([0, *(tally.episodes for tally in tallies)])
    parts["event_episode"] = np.concatenate(
        [tally.event_episode + offset for tally, offset in zip(tallies, first, strict=False)]
    )
    return Tally(**parts)


class TallyBuilder:
    """Counts what happens in episodes while they run."""

    def __init__(self, malicious: BoolArray) -> None:
        count = len(malicious)
        self._malicious = malicious
        self._sums = {field.name: np.zeros(count) for field in fields(Tally)[1:10]}
        # Of the corruption now present: the start of the unit in which its first block went bad,
        # and the start of that interval, which is the onset that the paper reports.
        self._onset = np.zeros(count, np.int64)
        self._interval_onset = np.zeros(count, np.int64)
        self._events: list[tuple[IntArray, IntArray, BoolArray]] = []

    def record(self, episode: IntArray, nodes: Nodes, outcome: StepResult) -> None:
        """Count one audit of each of these episodes; `nodes` is the state after it."""
        growth = outcome.growth
        began = growth.began
        interval_start = nodes.time - growth.interval
        self._interval_onset[episode[began]] = interval_start[began]
        self._onset[episode[began]] = (interval_start + growth.first_unit())[began]

        never_detected = outcome.finished & outcome.miss
        latency = np.where(outcome.detection, nodes.time - self._interval_onset[episode], 0)
        self._add(episode, "gas", outcome.gas)
        self._add(episode, "audits", np.ones(len(episode)))
        self._add(episode, "detections", outcome.detection)
        self._add(episode, "misses", outcome.miss)
        self._add(episode, "detections_malicious", outcome.detection & outcome.malicious)
        self._add(episode, "misses_malicious", outcome.miss & outcome.malicious)
        self._add(episode, "latency", latency)
        self._add(episode, "exposure", growth.exposure())
        self._add(episode, "undetected", never_detected)

        ended = outcome.detection | never_detected
        delay = (nodes.time - self._onset[episode])[ended]
        self._events.append((episode[ended], delay, outcome.detection[ended]))

    def build(self) -> Tally:
        episode, delay, detected = (
            np.concatenate(column) for column in zip(*self._events, strict=True)
        )
        return Tally(
            malicious=self._malicious,
            event_episode=episode,
            event_delay=delay,
            event_detected=detected,
            **self._sums,
        )

    def _add(self, episode: IntArray, name: str, amount: FloatArray | IntArray | BoolArray) -> None:
        self._sums[name][episode] += amount
