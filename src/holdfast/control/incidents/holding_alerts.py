"""Alerts about a single holding: it is damaged, its audit failed, or it is quarantined."""

from typing import Any

from sqlalchemy import Connection, insert, literal, select, update

from holdfast.control.evidence.leaves import last_leaf
from holdfast.control.incidents.alerts import Kind as AlertKind
from holdfast.control.incidents.types import Kind
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
from holdfast.storage.schema import NEVER, alerts, holdings

# The kinds whose subject is a holding.
ABOUT_HOLDINGS = (*Kind, AlertKind.STORAGE, AlertKind.COVERAGE)


def has_open_alert(connection: Connection, name: str, *kinds: Kind) -> bool:
    query = select(alerts.c.id).where(*_open(name, *kinds)).limit(1)
    return connection.execute(query).first() is not None


def raise_alert(connection: Connection, name: str, kind: Kind, detail: str, now: int) -> None:
    moments = {"raised": now, "seen": now}
    row = {"kind": kind, "subject": name, "detail": plain(detail), **moments}
    connection.execute(insert(alerts), [row])


def raise_damage_alert(
    connection: Connection, holding: int, detail: str, now: int, *, first: bool = False
) -> None:
    """Raise an alert that a holding is damaged, or update the open one.

    An audit that fails is the first sign: it adds nothing to what an open alert says.
    """
    name, detail = _name(connection, holding), f"{detail}; {_place(connection, holding)}"
    newer = {"seen": now} if first else {"seen": now, "detail": plain(detail), "changed": True}
    still_open = update(alerts).where(*_open(name, Kind.DAMAGED)).values(newer)
    if not connection.execute(still_open).rowcount:
        raise_alert(connection, name, Kind.DAMAGED, detail, now)


def end_alerts(connection: Connection, holding: int, reason: str, now: int) -> None:
    """End all alerts about a holding, and say why."""
    raised = update(alerts).where(*_open(_name(connection, holding), *Kind))
    detail = alerts.c.detail + literal(plain(f"; {reason}"))
    connection.execute(raised.values(ended=now, detail=detail))


def end_all_alerts(connection: Connection, name: str, reason: str, now: int) -> None:
    """End all alerts about a holding that is removed, whoever raised them."""
    detail = alerts.c.detail + literal(plain(f"; {reason}"))
    raised = update(alerts).where(*_open(name, *ABOUT_HOLDINGS))
    connection.execute(raised.values(ended=now, detail=detail))


def rename_alerts(connection: Connection, old: str, new: str, now: int) -> None:
    """End the open alerts about a holding that is renamed, and raise them under its new name."""
    still_open = _open(old, *ABOUT_HOLDINGS)
    rows = connection.execute(select(alerts).where(*still_open)).mappings().all()
    detail = alerts.c.detail + literal(plain(f"; the holding is called {new} now"))
    connection.execute(update(alerts).where(*still_open).values(ended=now, detail=detail))
    same = ("kind", "detail", "raised", "seen", "acknowledged", "acknowledged_by")
    if rows:
        raised = [{"subject": new, **{name: row[name] for name in same}} for row in rows]
        connection.execute(insert(alerts), raised)


def end_node_alerts(connection: Connection, node: bytes, reason: str, now: int) -> None:
    """End all alerts about a node that stores nothing for the owner any more."""
    of_node = (alerts.c.subject == f"0x{node.hex()}", alerts.c.ended == NEVER)
    detail = alerts.c.detail + literal(plain(f"; {reason}"))
    connection.execute(update(alerts).where(*of_node).values(ended=now, detail=detail))


def _open(name: str, *kinds: str) -> tuple[Any, ...]:
    return alerts.c.subject == name, alerts.c.kind.in_(kinds), alerts.c.ended == NEVER


def _place(connection: Connection, holding: int) -> str:
    stored = last_leaf(connection, holding).holding
    if isinstance(stored, leaf.CheckedHolding):
        return stored.address
    return f"node 0x{stored.node.hex()}"


def _name(connection: Connection, holding: int) -> str:
    query = select(holdings.c.name).where(holdings.c.id == holding)
    name: str = connection.execute(query).scalar_one()
    return name
