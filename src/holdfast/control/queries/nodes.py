"""Nodes: for how many hours of the last 30 days each was reachable, the least reachable first."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from holdfast.control.audits.reachability import first_day
from holdfast.durations import HOUR
from holdfast.storage.home_schema import catalogue
from holdfast.storage.schema import node_days, nodes

MAX_NODES = 1000


@dataclass(frozen=True)
class Reachability:
    """For how long a node was reachable in the last 30 days, as far as contacts with it show."""

    address: str  # by which it signs
    url: str | None
    reachable: bool | None  # at the last contact; unknown before the first one
    reachable_hours: float
    observed_hours: float  # of which we know whether it was

    @property
    def share(self) -> float | None:
        return self.reachable_hours / self.observed_hours if self.observed_hours else None


def list_reachability(
    connection: Connection, now: int, *, limit: int = MAX_NODES
) -> list[Reachability]:
    """Return the nodes, those first that were unreachable for longest."""
    query = _select(now)
    away = query.selected_columns.observed - query.selected_columns.hours
    rows = connection.execute(query.order_by(away.desc(), nodes.c.address).limit(limit)).all()
    known = select(catalogue.c.node, func.min(catalogue.c.url)).group_by(catalogue.c.node)
    listed = known.where(catalogue.c.node.in_([row.address for row in rows]))
    urls = {bytes(address): url for address, url in connection.execute(listed)}
    return [_reachability(row, urls.get(bytes(row.address))) for row in rows]


def read_reachability(connection: Connection, now: int, holding: int) -> Reachability | None:
    """Return that of the node of a holding, if there was any contact with it."""
    node = select(catalogue.c.url, catalogue.c.node).where(catalogue.c.scheduled == holding)
    known = connection.execute(node).first()
    if known is None:
        return None
    row = connection.execute(_select(now).where(nodes.c.address == known.node)).first()
    return None if row is None else _reachability(row, known.url)


def _select(now: int) -> Select[Any]:
    recent = (node_days.c.address == nodes.c.address) & (node_days.c.start >= first_day(now))
    hours = func.coalesce(func.sum(node_days.c.reachable), 0).label("hours")
    observed = func.coalesce(func.sum(node_days.c.observed), 0).label("observed")
    query = select(nodes.c.address, nodes.c.reachable, hours, observed)
    return query.outerjoin(node_days, recent).group_by(nodes.c.address, nodes.c.reachable)


def _reachability(row: Row[Any], url: str | None) -> Reachability:
    return Reachability(
        address=f"0x{bytes(row.address).hex()}",
        url=url,
        reachable=row.reachable,
        reachable_hours=round(int(row.hours) / HOUR, 2),
        observed_hours=round(int(row.observed) / HOUR, 2),
    )
