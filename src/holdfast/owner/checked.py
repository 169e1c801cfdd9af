"""Holdings that no node stores: where their data lie, and which checker checks them.

This is the only place that writes the table of checked holdings. Their names are those of holdings,
too: no holding on a node has the same.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from holdfast import atomic
from holdfast.checkers.interface import Extent, Place
from holdfast.errors import ConflictError, InputError
from holdfast.storage.home_schema import catalogue, checked_holdings
from holdfast.storage.locks import lock_until_commit

HOLDINGS = "holdings"  # the folder of the home with one folder a holding
MAX_NAMES_PER_QUERY = 500


@dataclass(frozen=True)
class CheckedRecord:
    """A holding that a checker checks; `options` name where secrets are, and never have one."""

    name: str
    kind: str
    address: str
    options: Mapping[str, str]
    folder: str  # its name below that of all holdings; it outlasts the holding's name
    unit: str  # what one unit is called
    units: int  # at the last look
    bytes: int
    verify_within: int | None = None  # milliseconds
    carries: int | None = None  # units that a check can carry, after one took too long
    scheduled: int | None = None  # its id on the schedule

    def place(self, home: Path) -> Place:
        """Return where its checker finds the data, and a folder that is its own."""
        folder = (home / HOLDINGS / self.folder).absolute()  # commands may name it
        atomic.make_directory(folder, mode=atomic.PRIVATE_FOLDER)
        return self.place_in(folder)

    def place_in(self, folder: Path) -> Place:
        """Return the same with another folder for its checker."""
        return Place(self.address, self.options, folder)


_COLUMNS = [checked_holdings.c[field.name] for field in fields(CheckedRecord)]


def list_checked(
    connection: Connection, names: Collection[str] | None = None
) -> list[CheckedRecord]:
    """Return all checked holdings by name, or those of these names that there are."""
    query = select(*_COLUMNS).order_by(checked_holdings.c.name)
    if names is None:
        return _read(connection, query)
    some = list(names)
    return [
        record
        for first in range(0, len(some), MAX_NAMES_PER_QUERY)
        for record in _read(
            connection,
            query.where(checked_holdings.c.name.in_(some[first : first + MAX_NAMES_PER_QUERY])),
        )
    ]


def list_unscheduled(connection: Connection) -> list[CheckedRecord]:
    """Return those that are not audited yet."""
    query = select(*_COLUMNS).where(checked_holdings.c.scheduled.is_(None))
    return _read(connection, query.order_by(checked_holdings.c.name))


def find_checked(connection: Connection, name: str) -> CheckedRecord | None:
    return next(iter(list_checked(connection, [name])), None)


def check_free(connection: Connection, name: str) -> None:
    """Raise if a holding of either family has this name."""
    for table in (catalogue, checked_holdings):
        taken = select(table.c.name).where(table.c.name == name)
        if connection.execute(taken).first() is not None:
            raise ConflictError(f"there is a holding {name!r} already: choose another name")


def insert_checked(connection: Connection, record: CheckedRecord) -> None:
    check_free(connection, record.name)
    row = {**vars(record), "options": json.dumps(dict(record.options), sort_keys=True)}
    connection.execute(insert(checked_holdings).values(row))


def save_extent(connection: Connection, scheduled: int, extent: Extent) -> None:
    """Save how much there is to check now."""
    changes = {"units": extent.units, "bytes": extent.bytes, "unit": extent.unit}
    connection.execute(_of(scheduled).values(changes))


def take_slot(connection: Connection, scheduled: int, now: int, until: int, slots: int) -> bool:
    """Let a check run until then, unless so many others run already."""
    lock_until_commit(connection, "checks")
    others = (checked_holdings.c.busy > now, checked_holdings.c.scheduled != scheduled)
    count = connection.execute(select(func.count()).where(*others)).scalar_one()
    if count < slots:
        connection.execute(_of(scheduled).values(busy=until))
    return count < slots


def end_check(connection: Connection, scheduled: int, carries: int | None) -> None:
    """Save that no check runs any more, and how many units one can carry."""
    connection.execute(_of(scheduled).values(busy=0, carries=carries))


def rename_checked(connection: Connection, old: str, new: str) -> None:
    renamed = update(checked_holdings).where(checked_holdings.c.name == old)
    connection.execute(renamed.values(name=new))


def delete_checked(connection: Connection, name: str) -> None:
    connection.execute(delete(checked_holdings).where(checked_holdings.c.name == name))


def refuse_checked(connection: Connection, name: str) -> None:
    """Raise if a command that needs a node is given a holding without one."""
    record = find_checked(connection, name)
    if record is not None:
        raise InputError(
            f"holding {name!r} is on no node: the auditor {record.kind!r} checks it at "
            f"{record.address}"
        )


def _of(scheduled: int) -> Any:
    return update(checked_holdings).where(checked_holdings.c.scheduled == scheduled)


def _read(connection: Connection, query: Select[Any]) -> list[CheckedRecord]:
    return [
        CheckedRecord(**{**row, "options": json.loads(row["options"])})
        for row in connection.execute(query).mappings()
    ]
