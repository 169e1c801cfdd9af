"""What audits say about what nobody observes, worked out one after the other beside the pages.

A holding of a new size takes a second, each of the last 500 audits a millisecond.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.scheduling.telemetry import FAILURES, TEACHING
from holdfast.model.scenario import Scenario
from holdfast.policy.filter import BayesFilter, reduced_filter


@dataclass(frozen=True)
class BeliefAfter:
    """What is believed after an audit."""

    number: int
    ended: int
    outcome: str
    malice: float  # P(the node is malicious)
    damage: float  # P(something is damaged all the same)


@dataclass(frozen=True)
class BeliefTold:
    scenario: str  # the world in which this is believed
    prior: float  # P(malicious) before the first audit
    audits: list[BeliefAfter]


class ObservedAudit(NamedTuple):
    """What the belief takes from an audit."""

    number: int
    ended: int
    outcome: str
    samples: int
    interval: int


class Case(NamedTuple):
    scenario: Scenario
    rails: Rails
    blocks: int
    seen: tuple[ObservedAudit, ...]


class Beliefs:
    """Remembers what was asked for lately: who looks again before the next audit need not wait."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="belief")
        self._begun = lru_cache(maxsize=256)(self._begin)

    def of(self, case: Case, patience: float | None = None) -> BeliefTold | None:
        """Return what is believed; nothing if that takes longer than so many seconds."""
        try:
            return self._begun(case).result(patience)
        except TimeoutError:
            return None

    def close(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _begin(self, case: Case) -> Future[BeliefTold]:
        return self._worker.submit(followed, case)


def followed(case: Case) -> BeliefTold:
    """Follow the audits."""
    scenario, rails, blocks, seen = case
    filtered = _filter(scenario, rails, blocks)
    state = filtered.initial(1)
    # The first one looks back on its own interval.
    last = seen[0].ended - seen[0].interval * rails.unit if seen else 0
    prior = float(filtered.malice(state)[0])
    told = []
    for audit in seen:
        units = max(round((audit.ended - last) / rails.unit), 0)
        last += units * rails.unit  # so that the rounding of short intervals does not add up
        state = filtered.predict(state, np.array([min(units, scenario.horizon)]))
        if audit.outcome in TEACHING:
            sampled = np.array([min(audit.samples, blocks)])
            state = filtered.update(state, sampled, np.array([audit.outcome in FAILURES]))
        malice, damage = float(filtered.malice(state)[0]), float(filtered.missed(state)[0])
        told.append(BeliefAfter(audit.number, audit.ended, audit.outcome, malice, damage))
    return BeliefTold(scenario.name, prior, told)


@lru_cache(maxsize=64)
def _filter(scenario: Scenario, rails: Rails, blocks: int) -> BayesFilter:
    return reduced_filter(replace(scenario, blocks=blocks, sample_cap=rails.sample_cap))
