"""Alerts, and the steps that follow failed audits, the newest first."""

from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, Select, func, select

from holdfast.control.incidents.alerts import Alert
from holdfast.control.incidents.store import OPEN_STATES
from holdfast.control.incidents.types import State, Step
from holdfast.storage.schema import NEVER, alerts, holdings, responses

MAX_ALERTS = 1000


@dataclass(frozen=True)
class AlertPage:
    alerts: list[Alert]
    next: int | None  # the `before` of the next page


@dataclass(frozen=True)
class CaseStep:
    """A step in answer to a failed audit."""

    id: int
    holding: int
    name: str
    audit: int  # the number of the one that failed
    step: Step
    state: State
    detail: str
    began: int | None
    ended: int | None


@dataclass(frozen=True)
class CasePage:
    steps: list[CaseStep]
    next: int | None


def list_alerts(
    connection: Connection,
    *,
    ended: bool = False,
    before: int | None = None,
    limit: int = MAX_ALERTS,
) -> AlertPage:
    """Return the open alerts, or also those that have ended."""
    query = select(*(alerts.c[name] for name in Alert.__dataclass_fields__))
    if not ended:
        query = query.where(alerts.c.ended == NEVER)
    if before is not None:
        query = query.where(alerts.c.id < before)
    newest = connection.execute(query.order_by(alerts.c.id.desc()).limit(limit + 1))
    rows = newest.mappings().all()
    page = [Alert(**{**row, "ended": _ended(row["ended"])}) for row in rows[:limit]]
    return AlertPage(page, page[-1].id if len(rows) > limit else None)


def count_open_alerts(connection: Connection) -> int:
    return connection.execute(open_alert_count()).scalar_one()


def open_alert_count() -> Select[int]:
    return select(func.count()).select_from(alerts).where(alerts.c.ended == NEVER)


def open_case_count() -> Select[int]:
    """Return the query for the number of holdings with a response under way."""
    under_way = responses.c.state.in_(OPEN_STATES)
    return select(func.count(responses.c.holding.distinct())).where(under_way)


def list_steps(
    connection: Connection, *, holding: int | None = None, before: int | None = None, limit: int
) -> CasePage:
    """Return the steps after failed audits, of all holdings or of one."""
    columns = (responses.c[name] for name in CaseStep.__dataclass_fields__ if name != "name")
    query = select(*columns, holdings.c.name).join(holdings, holdings.c.id == responses.c.holding)
    if holding is not None:
        query = query.where(responses.c.holding == holding)
    if before is not None:
        query = query.where(responses.c.id < before)
    newest = connection.execute(query.order_by(responses.c.id.desc()).limit(limit + 1))
    rows = newest.mappings().all()
    steps = [_step(row) for row in rows[:limit]]
    return CasePage(steps, steps[-1].id if len(rows) > limit else None)


def _step(row: RowMapping) -> CaseStep:
    typed = {"step": Step(row["step"]), "state": State(row["state"])}
    moments = {"began": row["began"] or None, "ended": _ended(row["ended"])}
    return CaseStep(**{**row, **typed, **moments})


def _ended(moment: int) -> int | None:
    return None if moment == NEVER else moment
