"""The belief that a node is malicious, computed from a holding's audits beside the pages.

A holding of a new size takes a second, each of the last 500 audits a millisecond.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from holdfast.control.queries.audits import ObservedAudit, last_audits
from holdfast.control.queries.holdings import is_checked, read_blocks
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.scheduling.telemetry import FAILURES, TEACHING
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import NotFoundError
from holdfast.model.scenario import MAX_BLOCKS, Scenario
from holdfast.policy.filter import BayesFilter, reduced_filter

MAX_AUDITS = 500  # that the belief is computed from


@dataclass(frozen=True)
class BeliefAfter:
    """The belief after an audit."""

    number: int
    ended: int
    outcome: str
    malice: float  # P(the node is malicious)


@dataclass(frozen=True)
class Belief:
    scenario: str  # the world that it assumes
    prior: float  # P(malicious) before the first audit
    audits: list[BeliefAfter]


class Observations(NamedTuple):
    """All that a belief depends on."""

    scenario: Scenario
    rails: Rails
    blocks: int
    audits: tuple[ObservedAudit, ...]


def observe(connection: Connection, settings: ControlSettings, holding: int) -> Observations:
    """Read what the belief about a holding's node depends on; raise if it is on none."""
    if is_checked(connection, holding):
        raise NotFoundError("it is on no node: a tool checks it, and there is nobody to believe")
    blocks = min(max(read_blocks(connection, holding), 1), MAX_BLOCKS)
    audits = last_audits(connection, holding, MAX_AUDITS)
    return Observations(settings.scenario, settings.rails, blocks, audits)


class Posteriors:
    """Remembers recent beliefs, so that a second look before the next audit need not wait."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="belief")
        self._future = lru_cache(maxsize=256)(self._submit)

    def infer(self, observations: Observations) -> Belief:
        return self._future(observations).result()

    def infer_within(self, observations: Observations, seconds: float) -> Belief | None:
        """Return the belief, or None if it takes longer; the computation continues."""
        try:
            return self._future(observations).result(seconds)
        except TimeoutError:
            return None

    def close(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _submit(self, observations: Observations) -> Future[Belief]:
        return self._worker.submit(infer_belief, observations)


def infer_belief(observations: Observations) -> Belief:
    """Filter the audits one by one."""
    scenario, rails, blocks, audits = observations
    bayes = _filter(scenario, rails, blocks)
    state = bayes.initial(1)
    # The first one looks back on its own interval.
    last = audits[0].ended - audits[0].interval * rails.unit if audits else 0
    prior = float(bayes.malice(state)[0])
    beliefs = []
    for audit in audits:
        units = max(round((audit.ended - last) / rails.unit), 0)
        last += units * rails.unit  # so that the rounding of short intervals does not add up
        state = bayes.predict(state, np.array([min(units, scenario.horizon)]))
        if audit.outcome in TEACHING:
            sampled = np.array([min(audit.samples, blocks)])
            state = bayes.update(state, sampled, np.array([audit.outcome in FAILURES]))
        malice = float(bayes.malice(state)[0])
        beliefs.append(BeliefAfter(audit.number, audit.ended, audit.outcome, malice))
    return Belief(scenario.name, prior, beliefs)


@lru_cache(maxsize=64)
def _filter(scenario: Scenario, rails: Rails, blocks: int) -> BayesFilter:
    return reduced_filter(replace(scenario, blocks=blocks, sample_cap=rails.sample_cap))
