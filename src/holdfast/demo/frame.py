"""What there is to see at one moment: every node as it is, and what has happened so far."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select

from holdfast.control.database import transaction
from holdfast.control.rails import Override
from holdfast.control.schema import audits, holdings
from holdfast.demo.stage import Stage


@dataclass(frozen=True)
class Line:
    """Something that happened, as the viewer is told."""

    at: int
    node: str
    words: str
    mood: str  # an outcome, a step, or "harm", of which the owner can't know


@dataclass(frozen=True)
class Row:
    """A node as it is now; `damage` is what is really there, which the owner can't see."""

    node: str
    runs: bool
    damage: int
    quarantined: bool
    outcome: str | None
    audited: int
    audits: int
    due: int
    interval: int
    ratio: float
    follow_up: bool
    gas: float


@dataclass(frozen=True)
class Frame:
    """What there is to see at one moment, in milliseconds since the story began."""

    at: int
    span: int
    rows: tuple[Row, ...]
    lines: tuple[Line, ...]


def read_rows(stage: Stage, start: int, damage: Mapping[str, int]) -> tuple[Row, ...]:
    """Return the nodes by name, as the schedule has them; moments count from `start`."""
    spent = select(audits.c.holding, func.sum(audits.c.gas).label("gas")).group_by(audits.c.holding)
    sums = spent.subquery()
    query = select(holdings, sums.c.gas).outerjoin(sums, sums.c.holding == holdings.c.id)
    with transaction(stage.service.schedule.engine) as connection:
        found = connection.execute(query.order_by(holdings.c.name)).all()
    return tuple(
        Row(
            node=row.name,
            runs=stage.nodes[row.name].runs,
            damage=damage[row.name],
            quarantined=row.quarantined,
            outcome=row.outcome,
            audited=row.audited - start,
            audits=row.number,
            due=row.due - start,
            interval=row.interval,
            ratio=row.ratio,
            follow_up=bool(row.overrides & Override.FOLLOW_UP),
            gas=row.gas or 0.0,
        )
        for row in found
    )
