"""The names of holdings: those of today, and those that they had before."""

from contextlib import suppress
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, case, func, select

from holdfast.control.evidence.leaves import OfHolding
from holdfast.errors import HoldfastError
from holdfast.evidence import leaf
from holdfast.storage.database import transaction
from holdfast.storage.home_schema import catalogue, checked_holdings
from holdfast.storage.schema import former_names, holdings, leaves

MAX_NAMES = 5  # of a node's holdings in a line of the log


def name_of(holding: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the name of the holding with the id in a column, or the last one that it had."""
    former = (
        select(former_names.c.name)
        .where(former_names.c.holding == holding)
        .order_by(former_names.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    today = select(holdings.c.name).where(holdings.c.id == holding).scalar_subquery()
    return func.coalesce(today, former).label("name")


def unit_of(checked: ColumnElement[bool]) -> ColumnElement[str]:
    """Return what is sampled; the query must join `checked_holdings`.

    A holding that was removed no longer says what its units were.
    """
    return case((checked, func.coalesce(checked_holdings.c.unit, "unit")), else_="block")


def describe_node(engine: Engine, node: bytes) -> str:
    """Return a node by the names of its holdings; by its address if they can't be read."""
    query = select(catalogue.c.name).where(catalogue.c.node == node).order_by(catalogue.c.name)
    names: list[str] = []
    with suppress(HoldfastError), transaction(engine) as connection:
        names += connection.execute(query.limit(MAX_NAMES + 1)).scalars()
    shown = ", ".join(names[:MAX_NAMES]) + (" and others" if len(names) > MAX_NAMES else "")
    return f"the node of {shown}" if shown else f"0x{node.hex()}"


class HoldingNames:
    """Names for the numbers that holdings have in the evidence of a home."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._names: dict[leaf.Holding | int, str | None] = {}  # a checked one by its id

    def name(self, index: int, entry: leaf.Leaf) -> str | None:
        """Return the name of the holding that a leaf is about, if it is a leaf of the home."""
        if not isinstance(entry, OfHolding):
            return None
        holding = entry.holding
        number = holding.id if isinstance(holding, leaf.CheckedHolding) else holding
        if number not in self._names:
            query = select(leaves.c.body, name_of(leaves.c.holding)).where(leaves.c.place == index)
            with transaction(self._engine) as connection:
                row = connection.execute(query).first()
            ours = row is not None and bytes(row.body) == leaf.encode(entry)
            self._names[number] = row.name if row is not None and ours else None
        return self._names[number]

    def numbers(self, name: str) -> frozenset[int]:
        """Return the numbers on ledgers of all holdings that have or had this name."""
        with transaction(self._engine) as connection:
            numbers = {_number(connection, id_) for id_ in _ids(connection, name)}
        return frozenset(number for number in numbers if number is not None)

    def ids(self, name: str) -> frozenset[int]:
        """Return the ids on the schedule of all holdings that have or had this name."""
        with transaction(self._engine) as connection:
            return frozenset(_ids(connection, name))

    def all_names(self, name: str) -> frozenset[str]:
        """Return all names of the holdings that have or had this one."""
        with transaction(self._engine) as connection:
            ids = _ids(connection, name)
            today = select(holdings.c.name).where(holdings.c.id.in_(ids))
            before = select(former_names.c.name).where(former_names.c.holding.in_(ids))
            rows = [*connection.execute(today).scalars(), *connection.execute(before).scalars()]
        return frozenset(rows)


def _ids(connection: Connection, name: str) -> set[int]:
    today = select(holdings.c.id).where(holdings.c.name == name)
    before = select(former_names.c.holding).where(former_names.c.name == name)
    return {*connection.execute(today).scalars(), *connection.execute(before).scalars()}


def _number(connection: Connection, holding: int) -> int | None:
    """Return the number of a holding on its ledger, if the evidence has a leaf with it."""
    query = select(leaves.c.body).where(leaves.c.holding == holding).order_by(leaves.c.id).limit(1)
    body = connection.execute(query).scalar()
    entry = None if body is None else leaf.decode(bytes(body))
    named = entry.holding if isinstance(entry, OfHolding) else None
    return named.id if isinstance(named, leaf.Holding) else None
