"""Holdings: a list with the worst first, and one with the decision about its next audit."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Row, Select, func, literal, select

from holdfast.control.queries.coverage import Coverage, list_coverage
from holdfast.control.queries.fleet import Health, bound_on_damage, health_of, worst_first
from holdfast.control.queries.names import name_of
from holdfast.control.queries.nodes import Reachability, read_reachability
from holdfast.control.scheduling import guardrails
from holdfast.control.scheduling.guardrails import Override
from holdfast.errors import NotFoundError
from holdfast.model.action import GRID
from holdfast.model.observation import OBSERVATION
from holdfast.storage.home_schema import catalogue
from holdfast.storage.inference_schema import confidences
from holdfast.storage.schema import NEVER, audits, holdings


class Sort(StrEnum):
    HEALTH = "health"  # the worst first, and within a health what may be damaged most
    NAME = "name"
    DUE = "due"
    AUDITED = "audited"  # the last first
    BLOCKS = "blocks"  # the most first
    CONFIDENCE = "confidence"  # what may be damaged most first


@dataclass(frozen=True)
class Node:
    url: str
    address: str  # by which it signs


@dataclass(frozen=True)
class Confidence:
    """What is inferred of the damage, as of then: nobody observes it."""

    at: int
    audits: int  # that it knows of
    at_most: float  # share of the blocks, at 95 %
    damaged: float  # probability that any block is


@dataclass(frozen=True)
class HoldingRow:
    """A holding as it is now; times are milliseconds since 1970."""

    id: int
    name: str
    node: Node | None
    health: Health
    quarantined: bool
    working: bool  # whether it is being audited now
    due: int | None
    blocks: int  # or units, if a tool checks it
    audits: int
    outcome: str | None  # of the last audit
    audited: int | None
    interval: int
    ratio: float
    overrides: list[str]
    confidence: Confidence | None  # none until it is inferred
    checked: Coverage | None = None  # by a tool, what it read, and what may be damaged


@dataclass(frozen=True)
class HoldingPage:
    total: int
    page: int
    pages: int
    holdings: list[HoldingRow]


@dataclass(frozen=True)
class Chosen:
    """What the policy chose; guardrails may have changed it."""

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
    reachability: Reachability | None  # of its node


@dataclass(frozen=True)
class HoldingFilter:
    health: Sequence[Health] = ()  # all, if it names none
    search: str = ""  # a part of the name
    sort: Sort = Sort.HEALTH


_LISTED = (
    *("id", "name", "quarantined", "due", "lease", "blocks", "number", "audited", "outcome"),
    *("interval", "ratio", "overrides", "checked"),
)
_DETAIL = (*_LISTED, "decided", "version", "chosen", "observation")
_SAME = confidences.c.holding == holdings.c.id


@dataclass(frozen=True)
class AsOf:
    """The moment as of which holdings are read."""

    now: int
    grace: int  # by which an audit may be late before it is overdue

    @property
    def health(self) -> ColumnElement[str]:
        return health_of(self.now, self.grace)


def list_holdings(
    connection: Connection, as_of: AsOf, wanted: HoldingFilter, *, page: int, limit: int
) -> HoldingPage:
    conditions: list[ColumnElement[bool]] = []
    if wanted.health:
        conditions.append(as_of.health.in_([str(state) for state in wanted.health]))
    if wanted.search:
        conditions.append(holdings.c.name.icontains(wanted.search, autoescape=True))
    count = select(func.count()).select_from(holdings).where(*conditions)
    total = connection.execute(count).scalar_one()
    # All are sorted by their ids alone; the rest is looked up for those on the page.
    order = _order(wanted.sort, as_of.health)
    ids = select(holdings.c.id).where(*conditions).order_by(*order, holdings.c.id)
    if wanted.sort in {Sort.HEALTH, Sort.CONFIDENCE}:
        ids = ids.outerjoin_from(holdings, confidences, _SAME)
    ids = ids.limit(limit).offset((page - 1) * limit)
    listed = connection.execute(ids).scalars().all()
    query = _select(as_of, _LISTED).where(holdings.c.id.in_(listed))
    found = connection.execute(query).all()
    checked = _coverage(connection, as_of, [row.name for row in found if row.checked])
    rows = {row.id: _holding(as_of, row, checked.get(row.name)) for row in found}
    return HoldingPage(total, page, -(-total // limit), [rows[id_] for id_ in listed])


def read_holding(connection: Connection, as_of: AsOf, holding: int) -> HoldingDetail:
    """Return a holding, and the decision about its next audit."""
    row = connection.execute(_select(as_of, _DETAIL).where(holdings.c.id == holding)).first()
    if row is None:
        raise _missing(connection, holding)
    checked = _coverage(connection, as_of, [row.name] if row.checked else [])
    seen = np.frombuffer(row.observation, np.float32).tolist()
    return HoldingDetail(
        holding=_holding(as_of, row, checked.get(row.name)),
        decided=row.decided or None,
        policy=row.version,
        chosen=Chosen(*GRID.action(row.chosen)) if row.chosen >= 0 else None,
        signals=dict(zip(OBSERVATION, seen, strict=True)) if seen else None,
        reasons=[guardrails.REASONS[override] for override in Override(row.overrides)],
        reachability=read_reachability(connection, as_of.now, holding),
    )


def read_name(connection: Connection, holding: int) -> str:
    query = select(holdings.c.name).where(holdings.c.id == holding)
    name: str | None = connection.execute(query).scalar()
    if name is None:
        raise _missing(connection, holding)
    return name


def read_blocks(connection: Connection, holding: int) -> int:
    query = select(holdings.c.blocks).where(holdings.c.id == holding)
    blocks: int | None = connection.execute(query).scalar()
    if blocks is None:
        raise _missing(connection, holding)
    return blocks


def is_checked(connection: Connection, holding: int) -> bool:
    """Return whether a tool checks a holding, instead of a node that gives proofs."""
    query = select(holdings.c.checked).where(holdings.c.id == holding)
    return bool(connection.execute(query).scalar())


@dataclass(frozen=True)
class ScheduledHolding:
    """A holding as the schedule has it, and the gas that its audits took."""

    name: str
    quarantined: bool
    outcome: str | None
    audited: int
    audits: int
    due: int
    interval: int
    ratio: float
    overrides: Override
    gas: float


def list_scheduled(connection: Connection) -> list[ScheduledHolding]:
    """Return all holdings by name: for fleets of a few."""
    spent = select(audits.c.holding, func.sum(audits.c.gas).label("gas")).group_by(audits.c.holding)
    gas = spent.subquery()
    query = select(holdings, gas.c.gas).outerjoin(gas, gas.c.holding == holdings.c.id)
    return [
        ScheduledHolding(
            name=row.name,
            quarantined=row.quarantined,
            outcome=row.outcome,
            audited=row.audited,
            audits=row.number,
            due=row.due,
            interval=row.interval,
            ratio=row.ratio,
            overrides=Override(row.overrides),
            gas=row.gas or 0.0,
        )
        for row in connection.execute(query.order_by(holdings.c.name))
    ]


def _select(as_of: AsOf, names: tuple[str, ...]) -> Select[Any]:
    columns, inferred = (holdings.c[name] for name in names), confidences.c
    confidence = (inferred.at, inferred.number.label("known"), inferred.at_most, inferred.damaged)
    node = (catalogue.c.url, catalogue.c.node)
    query = select(*columns, as_of.health.label("health"), *confidence, *node)
    query = query.outerjoin_from(holdings, confidences, _SAME)
    return query.outerjoin(catalogue, catalogue.c.scheduled == holdings.c.id)


def _coverage(connection: Connection, as_of: AsOf, names: Sequence[str]) -> dict[str, Coverage]:
    """Return the coverage of those holdings of a page that a tool checks."""
    listed = list_coverage(connection, as_of.now, names) if names else []
    return {coverage.holding: coverage for coverage in listed}


def _holding(as_of: AsOf, row: Row[Any], checked: Coverage | None) -> HoldingRow:
    return HoldingRow(
        id=row.id,
        name=row.name,
        node=None if row.url is None else Node(row.url, f"0x{bytes(row.node).hex()}"),
        health=Health(row.health),
        quarantined=row.quarantined,
        working=row.lease > as_of.now,
        due=None if row.due == NEVER else row.due,
        blocks=row.blocks,
        audits=row.number,
        outcome=row.outcome,
        audited=row.audited if row.number else None,
        interval=row.interval,
        ratio=row.ratio,
        overrides=guardrails.override_names(row.overrides),
        confidence=_confidence(row),
        checked=checked,
    )


def _order(sort: Sort, health: ColumnElement[str]) -> list[ColumnElement[Any]]:
    orders: dict[Sort, list[ColumnElement[Any]]] = {
        Sort.HEALTH: worst_first(health),
        Sort.NAME: [holdings.c.name],
        Sort.DUE: [holdings.c.due],
        Sort.AUDITED: [holdings.c.audited.desc()],
        Sort.BLOCKS: [holdings.c.blocks.desc()],
        Sort.CONFIDENCE: [bound_on_damage().desc()],
    }
    return orders[sort]


def _confidence(row: Row[Any]) -> Confidence | None:
    return None if row.at is None else Confidence(row.at, row.known, row.at_most, row.damaged)


def _missing(connection: Connection, holding: int) -> NotFoundError:
    name = connection.execute(select(name_of(literal(holding)))).scalar()
    if name is not None:
        return NotFoundError(f"holding {name!r} was removed: the evidence has its audits")
    return NotFoundError(f"there is no holding {holding}")
