"""How everything stands, read from the database alone: holdings, evidence, alerts."""

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Engine, case, func, select

from holdfast.control.alerts import Alert, Alerts
from holdfast.control.aliases import Named, named_aliases
from holdfast.control.database import transaction
from holdfast.control.schema import checkpoints, holdings, leaves, trees
from holdfast.control.telemetry import Outcome


class Health(StrEnum):
    OVERDUE = "overdue"
    QUARANTINED = "quarantined"
    DAMAGED = "damaged"  # its last audit failed
    SILENT = "silent"  # its node gave no proof, or was not there
    NEW = "new"
    SOUND = "sound"


def overdue_by(now: int, grace: int) -> ColumnElement[bool]:
    """Return whether a holding's audit is late by more than `grace`, with nobody at work on it."""
    return (holdings.c.due <= now - grace) & (holdings.c.lease <= now)


def health_of(now: int, grace: int) -> ColumnElement[str]:
    """Return the health of a holding."""
    return case(
        (overdue_by(now, grace), str(Health.OVERDUE)),
        (holdings.c.quarantined, str(Health.QUARANTINED)),
        (holdings.c.outcome == Outcome.FAILED, str(Health.DAMAGED)),
        (holdings.c.outcome.is_(None), str(Health.NEW)),
        (holdings.c.outcome != Outcome.PASSED, str(Health.SILENT)),
        else_=str(Health.SOUND),
    )


def rank(health: ColumnElement[str]) -> ColumnElement[int]:
    """Return the place of a health in their order, the worst first."""
    return case({str(each): place for place, each in enumerate(Health)}, value=health)


@dataclass(frozen=True)
class HoldingStatus:
    holding: str
    health: Health
    blocks: int
    audits: int
    outcome: str | None  # of the last audit
    audited: int | None  # when that was
    due: int | None


@dataclass(frozen=True)
class Head:
    """A signed head of the evidence: its size and when it was signed."""

    leaves: int
    signed: int


@dataclass(frozen=True)
class Status:
    at: int
    holdings: int
    overdue: int
    quarantined: int
    worst: tuple[HoldingStatus, ...]  # those that need a look first
    evidence: int
    checkpoint: Head | None
    anchor: Head | None
    policies: dict[str, Named]  # by their aliases
    alerts: tuple[Alert, ...]

    @property
    def fine(self) -> bool:
        return not (self.overdue or self.quarantined or self.alerts)


def read_status(engine: Engine, now: int, *, grace: int, limit: int) -> Status:
    """Return how everything stands; an audit is overdue once it is late by more than `grace`."""
    late, health = overdue_by(now, grace), health_of(now, grace)
    shown = (holdings.c[name] for name in ("name", "blocks", "number", "audited", "due"))
    listed = (
        select(*shown, holdings.c.quarantined, holdings.c.outcome, health.label("health"))
        .order_by(rank(health), holdings.c.due, holdings.c.id)
        .limit(limit)
    )
    counted = select(
        func.count(),
        func.count(case((late, 1))),
        func.count(case((holdings.c.quarantined, 1))),
    ).select_from(holdings)
    with transaction(engine) as connection:
        total, overdue, quarantined = connection.execute(counted).one()
        rows = connection.execute(listed).all()
        placed = connection.execute(select(func.max(trees.c.size))).scalar() or 0
        waiting = select(func.count()).where(leaves.c.place.is_(None))
        size = placed + connection.execute(waiting).scalar_one()
        newest = select(checkpoints.c.size, checkpoints.c.signed).order_by(checkpoints.c.id.desc())
        checkpoint = connection.execute(newest.limit(1)).first()
        anchor = connection.execute(newest.where(checkpoints.c.anchored).limit(1)).first()
    worst = tuple(
        HoldingStatus(
            row.name,
            Health(row.health),
            row.blocks,
            row.number,
            row.outcome,
            row.audited if row.number else None,
            None if row.quarantined else row.due,
        )
        for row in rows
    )
    alerts = tuple(Alerts(engine, lambda: now).listing())
    return Status(
        at=now,
        holdings=total,
        overdue=overdue,
        quarantined=quarantined,
        worst=worst,
        evidence=size,
        checkpoint=None if checkpoint is None else Head(*checkpoint),
        anchor=None if anchor is None else Head(*anchor),
        policies=named_aliases(engine),
        alerts=alerts,
    )
