"""What is inferred of the fleet's misses and of each holding's damage, as the tables have it."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from holdfast.control.scheduling.telemetry import LOSSES
from holdfast.evidence.leaf import Outcome
from holdfast.model.estimate import Estimate
from holdfast.storage.inference_schema import confidences, fleet_confidence
from holdfast.storage.schema import audits, has_proofs, holdings
from holdfast.words import plural


@dataclass(frozen=True)
class FleetConfidence:
    """The figures of the whole fleet; none of them can be observed."""

    at: int  # as of when: the oldest figure in them
    miss_rate: Estimate
    detections: int
    fleet_at_most: float  # share of all blocks damaged, at 95 %


@dataclass(frozen=True)
class HoldingConfidence:
    holding: str
    at_most: float  # share of its blocks damaged, at 95 %
    damaged: float  # probability that any block is
    at: int


@dataclass(frozen=True)
class KnownDamage:
    """A holding whose last audit showed a loss: what is inferred holds once it is repaired."""

    holding: str
    blocks: int
    damaged: int | None  # blocks that were found damaged; none before they are located

    def describe(self) -> str:
        if self.damaged:
            return f"damaged: {self.damaged:,} of {plural(self.blocks, 'block')} known"
        return "damaged, and not yet known which blocks"


@dataclass(frozen=True)
class ConfidenceReport:
    fleet: FleetConfidence
    holdings: tuple[HoldingConfidence, ...]  # the worst first
    waiting: tuple[str, ...]  # holdings of which nothing is inferred yet


def count_proven(connection: Connection) -> int:
    """Return how many holdings are on nodes: only of these damage is inferred."""
    query = select(func.count()).select_from(holdings).where(has_proofs)
    return int(connection.execute(query).scalar_one())


def list_known_damage(connection: Connection, limit: int | None = None) -> list[KnownDamage]:
    """Return the holdings with proofs whose last audit showed a loss, by name."""
    audit = audits.c
    passed = select(func.coalesce(func.max(audit.number), 0)).where(
        audit.holding == holdings.c.id, audit.outcome == Outcome.PASSED
    )
    located = select(func.max(audit.found)).where(
        audit.holding == holdings.c.id,
        audit.outcome.in_(LOSSES),
        audit.number > passed.correlate(holdings).scalar_subquery(),
    )
    found = located.correlate(holdings).scalar_subquery()
    query = select(holdings.c.name, holdings.c.blocks, found)
    query = query.where(has_proofs, holdings.c.outcome.in_(LOSSES)).order_by(holdings.c.name)
    return [KnownDamage(*row) for row in connection.execute(query.limit(limit))]


def read_fleet_confidence(connection: Connection) -> FleetConfidence | None:
    """Return the fleet's figures; None before the first refresh."""
    row = connection.execute(select(fleet_confidence).where(fleet_confidence.c.basis != "")).first()
    if row is None:
        return None
    rate = Estimate(row.miss_rate, row.miss_rate_low, row.miss_rate_high)
    return FleetConfidence(row.at, rate, row.detections, row.at_most)


def read_confidence(connection: Connection) -> ConfidenceReport | None:
    """Return the fleet's figures and those of its holdings; None before the first refresh."""
    fleet = read_fleet_confidence(connection)
    if fleet is None:
        return None
    inferred = confidences.c
    query = select(holdings.c.name, inferred.at_most, inferred.damaged, inferred.at)
    query = query.outerjoin_from(holdings, confidences, inferred.holding == holdings.c.id)
    query = query.where(has_proofs)
    rows = connection.execute(query.order_by(inferred.at_most.desc(), holdings.c.id)).all()
    return ConfidenceReport(
        fleet,
        tuple(HoldingConfidence(*row) for row in rows if row.at is not None),
        tuple(row.name for row in rows if row.at is None),
    )
