"""Nodes that were away at the last contact: since when, and which holdings they store."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from holdfast.storage.home_schema import catalogue
from holdfast.storage.schema import holdings, nodes


@dataclass(frozen=True)
class Absence:
    node: bytes
    since: int  # when it last took a request; if it never did, when its first holding was added
    holdings: tuple[str, ...]


def list_absences(connection: Connection) -> list[Absence]:
    """Return the nodes that are away, with the holdings that are on the schedule."""
    query = (
        select(nodes.c.address, nodes.c.reached, holdings.c.name, holdings.c.added)
        .join(catalogue, catalogue.c.node == nodes.c.address)
        .join(holdings, holdings.c.id == catalogue.c.scheduled)
        .where(nodes.c.present.is_(False))
        .order_by(nodes.c.address, holdings.c.name)
    )
    absences: dict[bytes, Absence] = {}
    for row in connection.execute(query):
        address, since = bytes(row.address), max(row.reached, row.added)
        known = absences.get(address, Absence(address, since, ()))
        since = min(known.since, since)
        absences[address] = Absence(address, since, (*known.holdings, row.name))
    return list(absences.values())


def present_nodes(connection: Connection) -> set[bytes]:
    query = select(nodes.c.address).where(nodes.c.present)
    return {bytes(address) for address in connection.execute(query).scalars()}
