"""The owner's catalogue: holdings, the files in them, and what is under way.

Every change is one transaction. An intent is saved before anyone else learns of it, so that after a
crash it is known what may have happened.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, Table, delete, select, update
from sqlalchemy.exc import IntegrityError

from holdfast.errors import InputError, StorageError
from holdfast.pdp import FileEntry, Inventory
from holdfast.pdp.blocks import count_blocks
from holdfast.pdp.limbs import Layout
from holdfast.storage import home_schema as tables
from holdfast.storage.database import connect, create_tables, reading, transaction
from holdfast.storage.locks import locked, transaction_on


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
    block: int = 0  # of the ledger, with the last verdict


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
class OpenAudit:
    """A challenge that was to be opened on the ledger, and has no verdict yet."""

    challenge: bytes
    target: bytes
    deadline: int


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

    def holdings(self) -> list[HoldingRecord]:
        rows = self._read(select(*_HOLDING).order_by(tables.catalogue.c.name))
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
            raise InputError(f"there is no holding {name!r}: `holdfast holding list` shows them")
        return HoldingRecord(*rows[0])

    def add_holding(self, record: HoldingRecord) -> None:
        """Save a holding that is about to be registered; it may be known already."""
        with self._transaction() as connection:
            row = vars(record)
            connection.execute(_insert(connection, tables.catalogue, row).on_conflict_do_nothing())

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
            statement = _insert(connection, tables.registrations, row)
            connection.execute(statement.on_conflict_do_nothing())

    def number_holding(self, name: str, number: int) -> None:
        holding = update(tables.catalogue).where(tables.catalogue.c.name == name)
        with self._transaction() as connection:
            connection.execute(holding.values(number=number))

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

    def inventory(self, holding: str, key_id: bytes, sectors: int) -> Inventory:
        entries = (file.entry(sectors) for file in self.files(holding))
        return Inventory(key_id, sectors, tuple(entries))

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
            statement = _insert(connection, tables.file_changes, row)
            new = {name: statement.excluded[name] for name in row.keys() - {"holding", "name"}}
            connection.execute(
                statement.on_conflict_do_update(index_elements=["holding", "name"], set_=new)
            )

    def conclude(self, holding: str, intent: Intent) -> None:
        """Save that it is done: the node has confirmed it."""
        file, row = intent.file, _row(holding, intent.file)
        with self._transaction() as connection:
            if intent.removes:
                connection.execute(
                    delete(tables.files).where(
                        tables.files.c.holding == holding, tables.files.c.file_id == file.file_id
                    )
                )
            else:
                statement = _insert(connection, tables.files, row)
                changed = row.keys() - {"holding", "name", "file_id"}
                connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=["holding", "name"],
                        set_={name: statement.excluded[name] for name in changed},
                        where=statement.excluded.version > tables.files.c.version,
                    )
                )
            _drop(connection, holding, intent)

    def abandon(self, holding: str, intent: Intent) -> None:
        with self._transaction() as connection:
            _drop(connection, holding, intent)

    def move_source(self, holding: str, name: str, source: str) -> None:
        """Save that the owner's copy of a file is elsewhere now."""
        file = tables.files.c
        moved = update(tables.files).where(file.holding == holding, file.name == os.fsencode(name))
        with self._transaction() as connection:
            connection.execute(moved.values(source=os.fsencode(source)))

    def audits(self, holding: str) -> list[OpenAudit]:
        challenge = tables.open_challenges.c
        query = select(challenge.challenge, challenge.target, challenge.deadline)
        rows = self._read(query.where(challenge.holding == holding).order_by(challenge.deadline))
        return [OpenAudit(*row) for row in rows]

    def begin_audit(self, holding: str, audit: OpenAudit) -> None:
        row = {"holding": holding, **vars(audit)}
        with self._transaction() as connection:
            connection.execute(_insert(connection, tables.open_challenges, row))

    def end_audit(self, holding: str, audit: OpenAudit, block: int | None) -> None:
        """Forget an audit whose verdict is in that block of the ledger, if it has one."""
        verdict, record = block or 0, tables.catalogue.c
        later = update(tables.catalogue).where(record.name == holding, record.block < verdict)
        ended = delete(tables.open_challenges).where(
            tables.open_challenges.c.holding == holding,
            tables.open_challenges.c.challenge == audit.challenge,
        )
        with self._transaction() as connection:
            connection.execute(later.values(block=verdict))
            connection.execute(ended)

    def _read(self, query: Select[Any]) -> list[Any]:
        if self._connection is not None:
            with self._transaction() as connection:
                return list(connection.execute(query))
        with transaction(reading(self._engine)) as connection:
            return list(connection.execute(query))

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


def _insert(connection: Connection, table: Table, row: dict[str, Any]) -> Any:
    """Return the insertion of a row in the database's own dialect, which knows conflicts."""
    dialect = import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
    return dialect.insert(table).values(row)


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
