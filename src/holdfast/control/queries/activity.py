"""What audits there were of late, and what they cost."""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select

from holdfast.control.scheduling.guardrails import DAY
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, holdings


@dataclass(frozen=True)
class Period:
    """The audits of so many days until now, by their outcome, and the gas they took."""

    days: int
    outcomes: dict[str, int]
    gas: float


@dataclass(frozen=True)
class Ended:
    holding: str
    number: int
    outcome: str
    ended: int
    samples: int


@dataclass(frozen=True)
class Activity:
    due: int  # within a day, as `count_due` counts
    last: tuple[Ended, ...]  # the newest first
    periods: tuple[Period, ...]


def read_activity(engine: Engine, now: int, *, limit: int) -> Activity:
    newest = (
        select(holdings.c.name, *(audits.c[name] for name in ("number", "outcome", "ended")))
        .add_columns(audits.c.samples)
        .join(holdings, holdings.c.id == audits.c.holding)
        .order_by(audits.c.ended.desc(), audits.c.id.desc())
        .limit(limit)
    )
    periods = []
    with transaction(engine) as connection:
        last = tuple(Ended(*row) for row in connection.execute(newest))
        due = count_due(connection, now)
        for days in (1, 30):
            grouped = (
                select(audits.c.outcome, func.count(), func.sum(audits.c.gas))
                .where(audits.c.ended > now - days * DAY)
                .group_by(audits.c.outcome)
                .order_by(audits.c.outcome)
            )
            rows = connection.execute(grouped).all()
            outcomes = {outcome: count for outcome, count, _ in rows}
            periods.append(Period(days, outcomes, sum((gas for *_, gas in rows), 0.0)))
    return Activity(due, last, tuple(periods))


def count_due(connection: Connection, now: int) -> int:
    """Return how many audits are due within a day: late ones count, quarantined holdings don't."""
    soon = (holdings.c.due <= now + DAY) & ~holdings.c.quarantined
    return int(connection.execute(select(func.count()).where(soon)).scalar_one())
