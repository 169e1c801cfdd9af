"""What a holding's audits say about what nobody observes: whether its node is malicious."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from fastapi import APIRouter
from sqlalchemy import select

from holdfast.control.rails import Rails
from holdfast.control.schema import audits, holdings
from holdfast.control.telemetry import FAILURES, TEACHING
from holdfast.model.scenario import MOST_BLOCKS, Scenario
from holdfast.policy.filter import BayesFilter, reduced_filter
from holdfast.web.desk import AtDesk
from holdfast.web.holdings import absent
from holdfast.web.paging import Id

router = APIRouter(prefix="/holdings", tags=["holdings"])

MOST_AUDITS = 500  # of which the belief is told; a step of the filter takes 1 ms


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


class Seen(NamedTuple):
    """What the belief takes from an audit."""

    number: int
    ended: int
    outcome: str
    samples: int
    interval: int


@router.get("/{holding}/belief", summary="The belief of malice, audit by audit")
def belief(desk: AtDesk, holding: Id) -> BeliefTold:
    kept = desk.row(select(holdings.c.blocks).where(holdings.c.id == holding))
    if kept is None:
        raise absent(holding)
    query = select(*(audits.c[name] for name in Seen._fields)).where(audits.c.holding == holding)
    rows = desk.rows(query.order_by(audits.c.number.desc()).limit(MOST_AUDITS))[::-1]
    seen = tuple(Seen(**{name: getattr(row, name) for name in Seen._fields}) for row in rows)
    blocks = min(max(kept.blocks, 1), MOST_BLOCKS)
    return _told(desk.settings.scenario, desk.settings.rails, blocks, seen)


@lru_cache(maxsize=256)
def _told(scenario: Scenario, rails: Rails, blocks: int, seen: tuple[Seen, ...]) -> BeliefTold:
    """Follow the audits; who looks again before the next one need not wait."""
    filtered = _filter(scenario, rails, blocks)
    state = filtered.initial(1)
    # The first one looks back on its own interval.
    last = seen[0].ended - seen[0].interval * rails.unit if seen else 0
    prior = float(filtered.malice(state)[0])
    told = []
    for audit in seen:
        units = round((audit.ended - last) / rails.unit)
        last = audit.ended
        state = filtered.predict(state, np.array([min(max(units, 0), scenario.horizon)]))
        if audit.outcome in TEACHING:
            sampled = np.array([min(audit.samples, blocks)])
            state = filtered.update(state, sampled, np.array([audit.outcome in FAILURES]))
        malice, damage = float(filtered.malice(state)[0]), float(filtered.missed(state)[0])
        told.append(BeliefAfter(audit.number, audit.ended, audit.outcome, malice, damage))
    return BeliefTold(scenario.name, prior, told)


@lru_cache(maxsize=64)
def _filter(scenario: Scenario, rails: Rails, blocks: int) -> BayesFilter:
    return reduced_filter(replace(scenario, blocks=blocks, sample_cap=rails.sample_cap))
