"""How much may be damaged, and how much was missed: what is inferred of the whole fleet."""

from dataclasses import dataclass

from fastapi import APIRouter

from holdfast.control.inference.confidence import declared_ceiling
from holdfast.control.queries.confidence import HoldingConfidence, read_confidence
from holdfast.control.queries.coverage import Coverage, list_coverage
from holdfast.errors import NotFoundError
from holdfast.model.estimate import Figure
from holdfast.web.context import RequestContext

router = APIRouter(tags=["holdings"])


@dataclass(frozen=True)
class Confidence:
    at: int  # as of when: the oldest figure in it
    miss_rate: Figure  # over the whole log
    ceiling: float | None  # that is declared for it
    detections: int
    fleet_at_most: float  # share of all blocks damaged, at 95 %
    holdings: list[HoldingConfidence]  # the worst first
    waiting: list[str]  # holdings of which nothing is inferred yet


@router.get("/coverage", summary="What checks by tools have read, and what may be damaged")
def get_coverage(context: RequestContext) -> list[Coverage]:
    with context.read() as connection:
        return list_coverage(connection, context.clock())


@router.get("/confidence", summary="What is inferred of misses and damage, and as of when")
def get_confidence(context: RequestContext) -> Confidence:
    with context.read() as connection:
        inferred = read_confidence(connection)
    if inferred is None:
        raise NotFoundError("nothing is inferred yet: a background process does it after an audit")
    fleet = inferred.fleet
    return Confidence(
        at=fleet.at,
        miss_rate=Figure.of(fleet.miss_rate),
        ceiling=declared_ceiling(context.reader, context.settings),
        detections=fleet.detections,
        fleet_at_most=fleet.fleet_at_most,
        holdings=list(inferred.holdings),
        waiting=list(inferred.waiting),
    )
