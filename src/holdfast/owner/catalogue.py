"""The owner's catalogue: holdings, the files in them, and what is under way.

Every change is one transaction. An intent is saved before anyone else learns of it, so that after a
crash it is known what may have happened.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, Engine, Select, Table, delete, select, update
from sqlalchemy.exc import IntegrityError

from holdfast.errors import InputError, StorageError
from holdfast.owner.checked import refuse_checked
from holdfast.pdp import FileEntry, Inventory
from holdfast.pdp.blocks import count_blocks
from holdfast.pdp.limbs import Layout
from holdfast.storage import home_schema as tables
from holdfast.storage.database import connect, create_tables, reading, transaction
from holdfast.storage.locks import locked, transaction_on

MAX_NAMES_PER_QUERY = 500


@dataclass(frozen=True)
class HoldingRecord:
    """A holding, the node it is on, and its number on the ledger once it is registered."""

    name: str
    url: str
    node: bytes  # the address that signs its answers
    ca: str | None
    salt: bytes
    sectors: int
    encrypted: bool
    number: int | None = None
    revision: int = 0  # of its files: it grows with every change

    @property
    def registered_number(self) -> int:
        """Its number among the owner's on the ledger."""
        if self.number is None:
            raise InputError(
                f"holding {self.name!r} is not registered yet: `holdfast holding add {self.name} "
                f"{self.url}` finishes that"
            )
        return self.number


@dataclass(frozen=True)
class RegistrationRecord:
    """The transaction that registered a holding on the ledger."""

    hash: bytes
    block: int
    gas: int


@dataclass(frozen=True)
class FileRecord:
    """One version of a file; length and SHA-256 are those of the owner's own copy.

    The source is where that copy lay: an absolute path, or an address. The SHA-256 of the tag file
    is empty until there is one.
    """

    name: str
    source: str
    file_id: bytes
    version: int
    nonce: bytes
    length: int
    sha256: bytes
    tags_sha256: bytes = b""

    def entry(self, sectors: int) -> FileEntry:
        blocks = count_blocks(self.length, Layout(sectors))
        return FileEntry(self.file_id, self.version, self.nonce, blocks)


@dataclass(frozen=True)
class Intent:
    """A file that is on its way to a node, or out of it."""

    file: FileRecord
    removes: bool = False
    upload: bytes | None = None  # its name at the node, once there may be one

    def after(self, inventory: Inventory) -> Inventory:
        """Return the inventory that is right once this is done."""
        if self.removes:
            return inventory.without_file(self.file.file_id)
        return inventory.with_file(self.file.entry(inventory.sectors))


@dataclass(frozen=True)
class Removal:
    """A removed holding whose files are still to be deleted on its node."""

    id: int
    name: str
    url: str
    node: bytes
    ca: str | None
    salt: bytes
    sectors: int


class Catalogue:
    """The catalogue in a home's database, for one thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None  # the one that holds a lock, with PostgreSQL

    @classmethod
    def open(cls, address: str) -> Self:
        """Open the catalogue in a database, whose tables are created if there are none."""
        engine = connect(address)
        try:
            create_tables(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def locked(self, holding: str, *, wait: bool) -> Iterator[None]:
        """Keep everyone else from changing a holding, or raise BlockingIOError."""
        with locked(self._engine, holding, wait=wait) as connection:
            self._connection = connection
            try:
                yield
            finally:
                self._connection = None

    def holdings(self, names: Collection[str] | None = None) -> list[HoldingRecord]:
        """Return all holdings, or those of these names that there are."""
        query = select(*_HOLDING).order_by(tables.catalogue.c.name)
        if names is None:
            return [HoldingRecord(*row) for row in self._read(query)]
        rows = self._read_named(query, tables.catalogue.c.name, names)
        return [HoldingRecord(*row) for row in rows]

    def unscheduled(self) -> list[HoldingRecord]:
        """Return the registered holdings that have files and are not audited yet."""
        holding = tables.catalogue.c
        filled = select(tables.files.c.id).where(tables.files.c.holding == holding.name).exists()
        query = select(*_HOLDING).where(
            holding.scheduled.is_(None), holding.number.is_not(None), filled
        )
        return [HoldingRecord(*row) for row in self._read(query.order_by(holding.name))]

    def holding(self, name: str) -> HoldingRecord:
        rows = self._read(select(*_HOLDING).where(tables.catalogue.c.name == name))
        if not rows:
            with self._transaction() as connection:
                refuse_checked(connection, name)
            raise InputError(f"there is no holding {name!r}: `holdfast holding list` shows them")
        return HoldingRecord(*rows[0])

    def add_holding(self, record: HoldingRecord) -> None:
        """Save a holding that is about to be registered; it may be known already."""
        with self._transaction() as connection:
            row = vars(record)
            connection.execute(
                insert_rows(connection, tables.catalogue, row).on_conflict_do_nothing()
            )

    def registrations(self) -> dict[str, RegistrationRecord]:
        """Return the known transactions that registered holdings, by the holding's name."""
        rows = self._read(select(tables.registrations))
        return {row.holding: RegistrationRecord(row.hash, row.block, row.gas) for row in rows}

    def registration(self, name: str) -> RegistrationRecord | None:
        """Return the transaction that registered a holding, if it is known."""
        rows = self._read(
            select(tables.registrations).where(tables.registrations.c.holding == name)
        )
        return next((RegistrationRecord(row.hash, row.block, row.gas) for row in rows), None)

    def record_registration(self, name: str, registration: RegistrationRecord) -> None:
        row = {"holding": name, **vars(registration)}
        with self._transaction() as connection:
            statement = insert_rows(connection, tables.registrations, row)
            connection.execute(statement.on_conflict_do_nothing())

    def number_holding(self, name: str, number: int) -> None:
        holding = update(tables.catalogue).where(tables.catalogue.c.name == name)
        with self._transaction() as connection:
            connection.execute(holding.values(number=number))

    def removals(self) -> list[Removal]:
        """Return the removed holdings whose files are still to be deleted on their nodes."""
        return [Removal(*row) for row in self._read(select(*_REMOVAL).order_by(_REMOVAL[0]))]

    def end_removal(self, removal: Removal) -> None:
        """Save that the node has deleted the files."""
        with self._transaction() as connection:
            ended = delete(tables.removals).where(tables.removals.c.id == removal.id)
            connection.execute(ended)

    def files(self, holding: str) -> list[FileRecord]:
        rows = self._read(
            select(*_file_columns(tables.files))
            .where(tables.files.c.holding == holding)
            .order_by(tables.files.c.id)
        )
        return [_file(row) for row in rows]

    def file(self, holding: str, name: str) -> FileRecord | None:
        rows = self._read(
            select(*_file_columns(tables.files)).where(
                tables.files.c.holding == holding, tables.files.c.name == os.fsencode(name)
            )
        )
        return next(map(_file, rows), None)

    def files_with(self, sha256: bytes) -> dict[str, FileRecord]:
        """Return the files with that content, one of each holding that has it."""
        query = select(tables.files.c.holding, *_file_columns(tables.files))
        rows = self._read(query.where(tables.files.c.sha256 == sha256).order_by(tables.files.c.id))
        return {holding: _file(file) for holding, *file in reversed(rows)}

    def inventory(self, holding: str, key_id: bytes, sectors: int) -> Inventory:
        return self.inventories({holding: (key_id, sectors)})[holding]

    def inventories(self, keys: Mapping[str, tuple[bytes, int]]) -> dict[str, Inventory]:
        """Return the inventories of holdings, given the id and the sectors of their keys."""
        query = select(tables.files.c.holding, *_file_columns(tables.files)).order_by(
            tables.files.c.id
        )
        files: dict[str, list[FileRecord]] = {name: [] for name in keys}
        for holding, *row in self._read_named(query, tables.files.c.holding, keys):
            files[holding].append(_file(row))
        return {
            name: Inventory(key_id, sectors, tuple(file.entry(sectors) for file in files[name]))
            for name, (key_id, sectors) in keys.items()
        }

    def intents(self, holding: str) -> list[Intent]:
        change = tables.file_changes.c
        rows = self._read(
            select(*_file_columns(tables.file_changes), change.removes, change.upload)
            .where(change.holding == holding)
            .order_by(change.name)
        )
        return [Intent(_file(row[:-2]), row.removes, row.upload) for row in rows]

    def intent(self, holding: str, name: str) -> Intent | None:
        return next((i for i in self.intents(holding) if i.file.name == name), None)

    def intend(self, holding: str, intent: Intent) -> None:
        """Save what is about to be done, in place of what was before."""
        row = _row(holding, intent.file) | {"removes": intent.removes, "upload": intent.upload}
        with self._transaction() as connection:
            statement = insert_rows(connection, tables.file_changes, row)
            new = {name: statement.excluded[name] for name in row.keys() - {"holding", "name"}}
            connection.execute(
                statement.on_conflict_do_update(index_elements=["holding", "name"], set_=new)
            )

    def conclude(self, holding: str, intent: Intent) -> None:
        """Save that it is done: the node has confirmed it."""
        with self._transaction() as connection:
            if intent.removes:
                _delete_file(connection, holding, intent.file.file_id)
            else:
                _upsert(connection, holding, [intent.file])
            _drop(connection, holding, intent)
            _count_revision(connection, holding)

    def replace_files(
        self, holding: str, files: Sequence[FileRecord], gone: Collection[bytes]
    ) -> None:
        """Save new files and new versions of known ones, in their order, and drop some by id."""
        with self._transaction() as connection:
            for file_id in gone:
                _delete_file(connection, holding, file_id)
            if files:
                _upsert(connection, holding, files)
            _count_revision(connection, holding)

    def abandon(self, holding: str, intent: Intent) -> None:
        with self._transaction() as connection:
            _drop(connection, holding, intent)

    def move_source(self, holding: str, name: str, source: str) -> None:
        """Save that the owner's copy of a file is elsewhere now."""
        file = tables.files.c
        moved = update(tables.files).where(file.holding == holding, file.name == os.fsencode(name))
        with self._transaction() as connection:
            connection.execute(moved.values(source=os.fsencode(source)))

    def _read_named(
        self, query: Select[Any], column: ColumnElement[str], names: Collection[str]
    ) -> list[Any]:
        """Return the rows whose column has one of these names, asking for some at a time."""
        some = list(names)
        return [
            row
            for first in range(0, len(some), MAX_NAMES_PER_QUERY)
            for row in self._read(
                query.where(column.in_(some[first : first + MAX_NAMES_PER_QUERY]))
            )
        ]

    def _read(self, query: Select[Any]) -> list[Any]:
        if self._connection is not None:
            with self._transaction() as connection:
                return list(connection.execute(query))
        with transaction(reading(self._engine)) as connection:
            return list(connection.execute(query))

    def transaction(self) -> AbstractContextManager[Connection]:
        """Begin a transaction, on the connection that holds the lock if there is one."""
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        locking = self._connection
        one = transaction(self._engine) if locking is None else transaction_on(locking)
        try:
            with one as connection:
                yield connection
        except IntegrityError as error:
            raise StorageError(f"the catalogue can't be changed so: {error.orig}") from error


_HOLDING = [tables.catalogue.c[field.name] for field in fields(HoldingRecord)]
_REMOVAL = [tables.removals.c[field.name] for field in fields(Removal)]


def insert_rows(connection: Connection, table: Table, row: dict[str, Any] | None = None) -> Any:
    """Return the insertion of a row, or of those that are given with it.

    It is in the database's own dialect, which knows conflicts.
    """
    dialect = import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
    insertion = dialect.insert(table)
    return insertion if row is None else insertion.values(row)


def _upsert(connection: Connection, holding: str, files: Sequence[FileRecord]) -> None:
    """Insert files; a known one is replaced by a newer version of it."""
    rows = [_row(holding, file) for file in files]
    statement = insert_rows(connection, tables.files)
    changed = rows[0].keys() - {"holding", "name", "file_id"}
    upsert = statement.on_conflict_do_update(
        index_elements=["holding", "name"],
        set_={name: statement.excluded[name] for name in changed},
        where=statement.excluded.version > tables.files.c.version,
    )
    connection.execute(upsert, rows)


def _delete_file(connection: Connection, holding: str, file_id: bytes) -> None:
    file = tables.files.c
    connection.execute(delete(tables.files).where(file.holding == holding, file.file_id == file_id))


def _count_revision(connection: Connection, holding: str) -> None:
    record = update(tables.catalogue).where(tables.catalogue.c.name == holding)
    connection.execute(record.values(revision=tables.catalogue.c.revision + 1))


def _drop(connection: Connection, holding: str, intent: Intent) -> None:
    change = tables.file_changes.c
    connection.execute(
        delete(tables.file_changes).where(
            change.holding == holding,
            change.file_id == intent.file.file_id,
            change.nonce == intent.file.nonce,
            change.removes == intent.removes,
        )
    )


def _file_columns(table: Table) -> list[Any]:
    return [table.c[field.name] for field in fields(FileRecord)]


def _row(holding: str, file: FileRecord) -> dict[str, Any]:
    names = {"name": os.fsencode(file.name), "source": os.fsencode(file.source)}
    return {"holding": holding, **vars(file), **names}


def _file(row: Any) -> FileRecord:
    name, source, *rest = row
    return FileRecord(os.fsdecode(name), os.fsdecode(source), *rest)
