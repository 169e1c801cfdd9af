"""What a holding's audits say about what nobody observes: whether its node is malicious."""

from dataclasses import dataclass, replace
from functools import lru_cache

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

MOST_AUDITS = 500  # of which the belief is told; a step of the filter takes 0.5 ms


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


@router.get("/{holding}/belief", summary="The belief of malice, audit by audit")
def belief(desk: AtDesk, holding: Id) -> BeliefTold:
    kept = desk.row(select(holdings.c.blocks).where(holdings.c.id == holding))
    if kept is None:
        raise absent(holding)
    shown = ("number", "ended", "outcome", "samples", "interval")
    query = select(*(audits.c[name] for name in shown)).where(audits.c.holding == holding)
    rows = desk.rows(query.order_by(audits.c.number.desc()).limit(MOST_AUDITS))[::-1]
    scenario, rails = desk.settings.scenario, desk.settings.rails
    filtered = _filter(scenario, rails, min(max(kept.blocks, 1), MOST_BLOCKS))
    state = filtered.initial(1)
    # The first one looks back on its own interval.
    last = rows[0].ended - rows[0].interval * rails.unit if rows else 0
    prior = float(filtered.malice(state)[0])
    told = []
    for row in rows:
        units = np.array([max(0, round((row.ended - last) / rails.unit))]).clip(0, scenario.horizon)
        last, state = row.ended, filtered.predict(state, units)
        if row.outcome in TEACHING:
            sampled = np.array([min(row.samples, filtered.scenario.blocks)])
            state = filtered.update(state, sampled, np.array([row.outcome in FAILURES]))
        malice, damage = float(filtered.malice(state)[0]), float(filtered.missed(state)[0])
        told.append(BeliefAfter(row.number, row.ended, row.outcome, malice, damage))
    return BeliefTold(scenario.name, prior, told)


@lru_cache(maxsize=64)
def _filter(scenario: Scenario, rails: Rails, blocks: int) -> BayesFilter:
    return reduced_filter(replace(scenario, blocks=blocks, sample_cap=rails.sample_cap))
