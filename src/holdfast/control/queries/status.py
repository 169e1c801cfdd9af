"""How everything stands, read from the database alone: holdings, evidence, alerts."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Engine, case, func, select

from holdfast.control.incidents.alerts import Alert, Alerts
from holdfast.control.incidents.store import open_cases
from holdfast.control.policies.aliases import Named, named_aliases
from holdfast.control.scheduling.telemetry import Outcome
from holdfast.storage.database import transaction
from holdfast.storage.schema import checkpoints, holdings, leaves, trees


class Health(StrEnum):
    OVERDUE = "overdue"
    QUARANTINED = "quarantined"
    DAMAGED = "damaged"  # its last audit failed
    SILENT = "silent"  # its node gave no proof, or was not there
    NEW = "new"
    SOUND = "sound"


BAD = (Health.OVERDUE, Health.QUARANTINED, Health.DAMAGED, Health.SILENT)


def all_fine(health: Mapping[Health, int], *, cases: int, alerts: int) -> bool:
    """Return whether nobody needs to look: no holding is in a bad way, no case or alert is open."""
    return not (cases or alerts or any(health[each] for each in BAD))


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
    fine: bool
    overdue: int
    quarantined: int
    damaged: int  # of the rest
    silent: int
    cases: int  # holdings with a response under way
    worst: tuple[HoldingStatus, ...]  # those that need a look first
    evidence: int
    checkpoint: Head | None
    anchor: Head | None
    policies: dict[str, Named]  # by their aliases
    alerts: tuple[Alert, ...]


def read_status(engine: Engine, now: int, *, grace: int, limit: int) -> Status:
    """Return how everything stands; an audit is overdue once it is late by more than `grace`."""
    health = health_of(now, grace)
    shown = (holdings.c[name] for name in ("name", "blocks", "number", "audited", "due"))
    listed = (
        select(*shown, holdings.c.quarantined, holdings.c.outcome, health.label("health"))
        .order_by(rank(health), holdings.c.due, holdings.c.id)
        .limit(limit)
    )
    counted = select(health.label("health"), func.count()).group_by("health")
    with transaction(engine) as connection:
        counts = Counter({Health(name): times for name, times in connection.execute(counted)})
        cases = connection.execute(open_cases()).scalar_one()
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
        holdings=counts.total(),
        fine=all_fine(counts, cases=cases, alerts=len(alerts)),
        overdue=counts[Health.OVERDUE],
        quarantined=counts[Health.QUARANTINED],
        damaged=counts[Health.DAMAGED],
        silent=counts[Health.SILENT],
        cases=cases,
        worst=worst,
        evidence=size,
        checkpoint=None if checkpoint is None else Head(*checkpoint),
        anchor=None if anchor is None else Head(*anchor),
        policies=named_aliases(engine),
        alerts=alerts,
    )
