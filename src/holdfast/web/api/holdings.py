"""Holdings: a list with the worst first, each by itself, and what may be ordered about one."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from sqlalchemy import ColumnElement, Row, Select, func, select

from holdfast.control.incidents import store
from holdfast.control.operator_commands import audit_now
from holdfast.control.queries.status import Health, health_of, rank
from holdfast.control.scheduling import guardrails
from holdfast.model.action import GRID
from holdfast.model.observation import OBSERVATION
from holdfast.storage.database import transaction
from holdfast.storage.schema import NEVER, confidences, holdings
from holdfast.web.auth import Operator
from holdfast.web.commands import CommandRequest, Done, carried_out
from holdfast.web.context import Context, RequestContext
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.pagination import Id, Limit, Page
from holdfast.web.services.node_directory import Node

router = APIRouter(prefix="/holdings", tags=["holdings"])

LONGEST_SEARCH = 100


class Sort(StrEnum):
    HEALTH = "health"  # the worst first
    NAME = "name"
    DUE = "due"
    AUDITED = "audited"  # the last first
    BLOCKS = "blocks"  # the most first
    CONFIDENCE = "confidence"  # what may be damaged most first


@dataclass(frozen=True)
class Confidence:
    """What is inferred of the damage, as of then: nobody observes it."""

    at: int
    audits: int  # that it knows of
    at_most: float  # share of the blocks, at 95 %
    damaged: float  # probability that any block is


@dataclass(frozen=True)
class HoldingRow:
    """A holding as it stands now; times are milliseconds since 1970."""

    id: int
    name: str
    node: Node | None
    health: Health
    quarantined: bool
    working: bool  # whether it is being audited just now
    due: int | None
    blocks: int
    audits: int
    outcome: str | None  # of the last audit
    audited: int | None
    interval: int
    ratio: float
    overrides: list[str]
    confidence: Confidence | None  # none until it was worked out


@dataclass(frozen=True)
class HoldingPage:
    total: int
    page: int
    pages: int
    holdings: list[HoldingRow]


@dataclass(frozen=True)
class Chosen:
    """What the policy chose; rails may have made something else of it."""

    interval: int
    ratio: float


@dataclass(frozen=True)
class HoldingDetail:
    holding: HoldingRow
    decided: int | None
    policy: str  # the version that decided
    chosen: Chosen | None
    signals: dict[str, float] | None  # what it saw
    reasons: list[str]  # of the overrides, in words


_SHOWN = (
    *("id", "name", "quarantined", "due", "lease", "blocks", "number", "audited", "outcome"),
    *("interval", "ratio", "overrides"),
)
_MORE = ("decided", "version", "chosen", "observation")
_SURE = confidences.c.holding == holdings.c.id


@router.get("", summary="All holdings, the worst first")
def listing(
    desk: RequestContext,
    *,
    health: Annotated[list[Health] | None, Query(max_length=len(Health))] = None,
    search: Annotated[
        str, Query(max_length=LONGEST_SEARCH, pattern=r"^[^\x00-\x1f]*$", description="Of a name.")
    ] = "",
    sort: Sort = Sort.HEALTH,
    page: Page = 1,
    limit: Limit = 50,
) -> HoldingPage:
    state = _health(desk)
    wanted: list[ColumnElement[bool]] = []
    if health:
        wanted.append(state.in_([str(each) for each in health]))
    if search:
        wanted.append(holdings.c.name.icontains(search, autoescape=True))
    counted = select(func.count()).select_from(holdings).where(*wanted)
    # All are sorted by their ids alone, and what is shown is looked up for those on the page.
    chosen = select(holdings.c.id).where(*wanted).order_by(*_order(sort, state), holdings.c.id)
    if sort is Sort.CONFIDENCE:
        chosen = chosen.outerjoin_from(holdings, confidences, _SURE)
    with transaction(desk.reader) as connection:
        total = connection.execute(counted).scalar_one()
        ids = connection.execute(chosen.limit(limit).offset((page - 1) * limit)).scalars().all()
        rows = connection.execute(_rows(desk, _SHOWN).where(holdings.c.id.in_(ids))).all()
    shown = {row.id: row for row in rows}
    return HoldingPage(total, page, -(-total // limit), [_row(desk, shown[id_]) for id_ in ids])


@router.get("/{holding}", summary="One holding, and the decision about its next audit")
def detail(desk: RequestContext, holding: Id) -> HoldingDetail:
    row = desk.row(_rows(desk, (*_SHOWN, *_MORE)).where(holdings.c.id == holding))
    if row is None:
        raise absent(holding)
    seen = np.frombuffer(row.observation, np.float32).tolist()
    return HoldingDetail(
        holding=_row(desk, row),
        decided=row.decided or None,
        policy=row.version,
        chosen=Chosen(*GRID.action(row.chosen)) if row.chosen >= 0 else None,
        signals=dict(zip(OBSERVATION, seen, strict=True)) if seen else None,
        reasons=[guardrails.REASONS[each] for each in guardrails.Override(row.overrides)],
    )


@router.post("/{holding}/audit-now", summary="Audit it as soon as a worker is free")
def order_audit(
    desk: RequestContext, operator: Operator, holding: Id, order: CommandRequest
) -> Done:
    name = name_of(desk, holding)
    with carried_out():
        audit_now(desk.writer, name, operator.author(desk, order.reason))
    return Done(f"{name} is due now")


@router.post("/{holding}/release", summary="Bring it back from quarantine")
def order_release(
    desk: RequestContext, operator: Operator, holding: Id, order: CommandRequest
) -> Done:
    name = name_of(desk, holding)
    with carried_out():
        store.release(desk.writer, name, operator.author(desk, order.reason))
    return Done(f"{name} is on the schedule again")


def absent(holding: int) -> WebRefusedError:
    return WebRefusedError(Code.NOT_FOUND, f"there is no holding {holding}")


def name_of(desk: Context, holding: int) -> str:
    row = desk.row(select(holdings.c.name).where(holdings.c.id == holding))
    if row is None:
        raise absent(holding)
    name: str = row.name
    return name


def _health(desk: Context) -> ColumnElement[str]:
    return health_of(desk.clock(), desk.settings.alerts.overdue)


def _rows(desk: Context, names: tuple[str, ...]) -> Select[Any]:
    shown = (holdings.c[name] for name in names)
    said = confidences.c
    sure = (said.at, said.number.label("known"), said.at_most, said.damaged)
    query = select(*shown, _health(desk).label("health"), *sure)
    return query.outerjoin_from(holdings, confidences, _SURE)


def _order(sort: Sort, state: ColumnElement[str]) -> list[ColumnElement[Any]]:
    orders: dict[Sort, list[ColumnElement[Any]]] = {
        Sort.HEALTH: [rank(state), holdings.c.due],
        Sort.NAME: [holdings.c.name],
        Sort.DUE: [holdings.c.due],
        Sort.AUDITED: [holdings.c.audited.desc()],
        Sort.BLOCKS: [holdings.c.blocks.desc()],
        Sort.CONFIDENCE: [func.coalesce(confidences.c.at_most, -1.0).desc()],
    }
    return orders[sort]


def _row(desk: Context, row: Row[Any]) -> HoldingRow:
    return HoldingRow(
        id=row.id,
        name=row.name,
        node=desk.nodes.of(row.name),
        health=Health(row.health),
        quarantined=row.quarantined,
        working=row.lease > desk.clock(),
        due=None if row.due == NEVER else row.due,
        blocks=row.blocks,
        audits=row.number,
        outcome=row.outcome,
        audited=row.audited if row.number else None,
        interval=row.interval,
        ratio=row.ratio,
        overrides=guardrails.names(row.overrides),
        confidence=_confidence(row),
    )


def _confidence(row: Row[Any]) -> Confidence | None:
    return None if row.at is None else Confidence(row.at, row.known, row.at_most, row.damaged)
