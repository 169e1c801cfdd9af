"""Alerts, and the steps that follow failed audits, the newest first."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, case, func, select

from holdfast.control.incidents.alerts import Alert
from holdfast.control.incidents.types import OPEN_STATES, Kind, State, Step
from holdfast.control.queries.names import name_of
from holdfast.durations import SECOND
from holdfast.evidence.leaf import Outcome
from holdfast.owner.losses import FileLoss, decode_losses
from holdfast.progress import BlockProgress
from holdfast.storage.schema import NEVER, alerts, audits, holdings, responses

MAX_ALERTS = 1000
CURRENT_STATES = (State.READY, State.ASKED)  # a case that is not over has one step in them


@dataclass(frozen=True)
class AlertPage:
    alerts: list[Alert]
    next: int | None  # the `before` of the next page


@dataclass(frozen=True)
class StepProgress:
    """Blocks searched or repaired, of how many, and at which rate."""

    done: int
    total: int
    per_second: float
    remaining_seconds: float | None  # at this rate
    text: str


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
    progress: StepProgress | None  # of a step that moves blocks and has begun
    losses: tuple[FileLoss, ...]  # the files and bytes that no replica has


@dataclass(frozen=True)
class CaseUnderWay:
    """A case that is not over, and the step that it has reached."""

    holding: int
    name: str
    audit: int  # the number of the one that failed
    step: Step
    state: State
    detail: str
    began: int  # this step
    due: int  # when the step is taken up, or taken up again


@dataclass(frozen=True)
class FollowUp:
    """A holding that gave no proof in time, and when it is audited again. Nothing is repaired."""

    holding: str
    audit: int  # the number of the one that timed out
    due: int


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


def list_past_losses(connection: Connection, since: int) -> list[Alert]:
    """Return the alerts about damage that ended after that moment, the newest first."""
    query = select(*(alerts.c[name] for name in Alert.__dataclass_fields__))
    over = (alerts.c.kind == Kind.DAMAGED, alerts.c.ended > since, alerts.c.ended < NEVER)
    rows = connection.execute(query.where(*over).order_by(alerts.c.id.desc()).limit(MAX_ALERTS))
    return [Alert(**row) for row in rows.mappings()]


def count_open_alerts(connection: Connection) -> int:
    return connection.execute(open_alert_count()).scalar_one()


def open_alert_count() -> Select[int]:
    return select(func.count()).select_from(alerts).where(alerts.c.ended == NEVER)


def open_case_count() -> Select[int]:
    """Return the query for the number of holdings with a response under way."""
    under_way = responses.c.state.in_(OPEN_STATES)
    return select(func.count(responses.c.holding.distinct())).where(under_way)


def list_cases_under_way(
    connection: Connection, *, holding: int | None = None, limit: int
) -> list[CaseUnderWay]:
    """Return the cases that are not over, the oldest first."""
    columns = (responses.c[name] for name in CaseUnderWay.__dataclass_fields__ if name != "name")
    query = (
        select(*columns, holdings.c.name)
        .join(holdings, holdings.c.id == responses.c.holding)
        .where(responses.c.state.in_(CURRENT_STATES))
        .order_by(responses.c.began, responses.c.id)
        .limit(limit)
    )
    if holding is not None:
        query = query.where(responses.c.holding == holding)
    rows = connection.execute(query).mappings()
    return [
        CaseUnderWay(**{**row, "step": Step(row["step"]), "state": State(row["state"])})
        for row in rows
    ]


def list_follow_ups(connection: Connection) -> list[FollowUp]:
    """Return the cases after time-outs that wait for their follow-up, the oldest first."""
    opening = (audits.c.holding == responses.c.holding) & (audits.c.number == responses.c.audit)
    due = case((responses.c.state == State.ASKED, holdings.c.due), else_=responses.c.due)
    query = (
        select(holdings.c.name, responses.c.audit, due)
        .join(holdings, holdings.c.id == responses.c.holding)
        .join(audits, opening)
        .where(responses.c.state.in_(CURRENT_STATES), responses.c.step == Step.FOLLOW_UP)
        .where(audits.c.outcome == Outcome.TIMED_OUT)
        .order_by(responses.c.id)
        .limit(MAX_ALERTS)
    )
    return [FollowUp(*row) for row in connection.execute(query)]


def list_steps(
    connection: Connection, *, holding: int | None = None, before: int | None = None, limit: int
) -> CasePage:
    """Return the steps after failed audits, of all holdings or of one."""
    query = _steps()
    if holding is not None:
        query = query.where(responses.c.holding == holding)
    if before is not None:
        query = query.where(responses.c.id < before)
    newest = connection.execute(query.order_by(responses.c.id.desc()).limit(limit + 1))
    rows = newest.mappings().all()
    steps = [_step(row) for row in rows[:limit]]
    return CasePage(steps, steps[-1].id if len(rows) > limit else None)


def list_repairs(connection: Connection) -> list[CaseStep]:
    """Return the steps that search or repair blocks now, and those that found blocks lost.

    Losses are those of holdings with an open alert.
    """
    moving = _steps().where(responses.c.state == State.READY, responses.c.progressed > 0)
    alerting = select(holdings.c.id).where(
        holdings.c.name.in_(select(alerts.c.subject).where(alerts.c.ended == NEVER))
    )
    lost = (responses.c.losses.is_not(None), responses.c.holding.in_(alerting))
    queries = (moving, _steps().where(*lost))
    return [
        _step(row)
        for query in queries
        for row in connection.execute(query.order_by(responses.c.id).limit(MAX_ALERTS)).mappings()
    ]


_STEP_COLUMNS = ("id", "holding", "audit", "step", "state", "detail", "began", "ended")
_PROGRESS_COLUMNS = ("done", "total", "progressed", "losses")


def _steps() -> Select[Any]:
    columns = (responses.c[name] for name in (*_STEP_COLUMNS, *_PROGRESS_COLUMNS))
    return select(*columns, name_of(responses.c.holding))


def _step(row: RowMapping) -> CaseStep:
    fields = {name: row[name] for name in (*_STEP_COLUMNS, "name")}
    typed = {"step": Step(row["step"]), "state": State(row["state"])}
    moments = {"began": row["began"] or None, "ended": _ended(row["ended"])}
    losses = () if row["losses"] is None else decode_losses(row["losses"])
    return CaseStep(**fields | typed | moments, progress=_progress(row), losses=losses)


def _progress(row: RowMapping) -> StepProgress | None:
    if not row["progressed"]:
        return None
    seconds = (row["progressed"] - row["began"]) / SECOND
    progress = BlockProgress(row["done"], row["total"], seconds)
    return StepProgress(
        progress.done,
        progress.total,
        progress.per_second,
        progress.remaining_seconds,
        progress.describe(),
    )


def _ended(moment: int) -> int | None:
    return None if moment == NEVER else moment
