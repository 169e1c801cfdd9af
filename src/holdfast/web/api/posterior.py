"""What a holding's audits say about what nobody observes: whether its node is malicious."""

from fastapi import APIRouter
from sqlalchemy import select

from holdfast.model.scenario import MOST_BLOCKS
from holdfast.storage.schema import audits, holdings
from holdfast.web.api.holdings import absent
from holdfast.web.context import Context, RequestContext
from holdfast.web.pagination import Id
from holdfast.web.services.posterior import BeliefTold, Case, ObservedAudit

router = APIRouter(prefix="/holdings", tags=["holdings"])

MOST_AUDITS = 500  # of which the belief is told


@router.get("/{holding}/belief", summary="The belief of malice, audit by audit")
def belief(desk: RequestContext, holding: Id) -> BeliefTold:
    told = desk.beliefs.of(case_of(desk, holding))
    assert told is not None  # noqa: S101 - whoever waits for it is told
    return told


def case_of(desk: Context, holding: int) -> Case:
    kept = desk.row(select(holdings.c.blocks).where(holdings.c.id == holding))
    if kept is None:
        raise absent(holding)
    query = select(*(audits.c[name] for name in ObservedAudit._fields)).where(
        audits.c.holding == holding
    )
    rows = desk.rows(query.order_by(audits.c.number.desc()).limit(MOST_AUDITS))[::-1]
    seen = tuple(
        ObservedAudit(**{name: getattr(row, name) for name in ObservedAudit._fields})
        for row in rows
    )
    blocks = min(max(kept.blocks, 1), MOST_BLOCKS)
    return Case(desk.settings.scenario, desk.settings.rails, blocks, seen)
