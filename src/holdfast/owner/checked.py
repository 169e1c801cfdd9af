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
MAX_STALLED = 16  # checks that get no further, beside those that may run at once


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


@dataclass(frozen=True)
class Slots:
    """Which checks may run side by side at a moment."""

    at_once: int
    now: int
    until: int  # for which a check gets its place


def take_slot(connection: Connection, scheduled: int, slots: Slots, *, stalled: bool) -> bool:
    """Let a check run for a while, unless so many others run already.

    A check that gets no further leaves its place to others, unless there are many of that kind.
    """
    lock_until_commit(connection, "checks")
    if stalled and _count_others(connection, "stalled", scheduled, slots.now) < MAX_STALLED:
        connection.execute(_of(scheduled).values(busy=0, stalled=slots.until, waits=0))
        return True
    if _count_others(connection, "busy", scheduled, slots.now) < slots.at_once:
        connection.execute(_of(scheduled).values(busy=slots.until, stalled=0, waits=0))
        return True
    begins = _of(scheduled).where(checked_holdings.c.waits == 0)
    connection.execute(begins.values(waits=slots.now))
    return False


def free_slot(connection: Connection, scheduled: int) -> None:
    """Save that no check runs, and that none waits for others."""
    connection.execute(_of(scheduled).values(busy=0, stalled=0, waits=0))


def end_check(
    connection: Connection, scheduled: int, carries: int | None, units: int | None = None
) -> None:
    """Save that no check runs any more, how many units one can carry, and how many there are."""
    free_slot(connection, scheduled)
    known = {} if units is None else {"units": units}
    connection.execute(_of(scheduled).values(carries=carries, **known))


def _count_others(connection: Connection, column: str, scheduled: int, now: int) -> int:
    others = (checked_holdings.c[column] > now, checked_holdings.c.scheduled != scheduled)
    return connection.execute(select(func.count()).where(*others)).scalar_one()


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
