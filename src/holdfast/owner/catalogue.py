"""What the owner keeps where: holdings, the files in them, and what is under way.

Every change is one transaction. An intent is written down before anyone else hears of it, so that
after a crash it is known what may have happened.
"""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InputError
from holdfast.pdp import FileEntry, Inventory
from holdfast.pdp.blocks import count_blocks
from holdfast.pdp.limbs import Layout
from holdfast.tables import Place, Value, open_tables

SCHEMA = """
CREATE TABLE IF NOT EXISTS holdings (
  name TEXT PRIMARY KEY, url TEXT NOT NULL, node BLOB NOT NULL, ca TEXT, salt BLOB NOT NULL,
  sectors INTEGER NOT NULL, encrypted INTEGER NOT NULL, number INTEGER, block INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS registrations (
  holding TEXT PRIMARY KEY, hash BLOB NOT NULL, block INTEGER NOT NULL, gas INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS files (
  place INTEGER PRIMARY KEY, holding TEXT NOT NULL, name BLOB NOT NULL, source BLOB NOT NULL,
  file_id BLOB NOT NULL, version INTEGER NOT NULL, nonce BLOB NOT NULL, length INTEGER NOT NULL,
  sha256 BLOB NOT NULL, tags_sha256 BLOB NOT NULL,
  UNIQUE (holding, name)
);
CREATE TABLE IF NOT EXISTS intents (
  holding TEXT NOT NULL, name BLOB NOT NULL, source BLOB NOT NULL, file_id BLOB NOT NULL,
  version INTEGER NOT NULL, nonce BLOB NOT NULL, length INTEGER NOT NULL, sha256 BLOB NOT NULL,
  tags_sha256 BLOB NOT NULL, removes INTEGER NOT NULL, upload BLOB,
  PRIMARY KEY (holding, name)
);
CREATE TABLE IF NOT EXISTS audits (
  holding TEXT NOT NULL, challenge BLOB NOT NULL, target BLOB NOT NULL, deadline INTEGER NOT NULL,
  PRIMARY KEY (holding, challenge)
);
"""


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
    """One connection to the database; every thread opens its own."""

    def __init__(self, place: Place) -> None:
        self._tables = open_tables(place, SCHEMA, "the catalogue")

    def close(self) -> None:
        self._tables.close()

    def locked(self, holding: str, *, wait: bool) -> AbstractContextManager[None]:
        """Keep everyone else from changing a holding, or raise BlockingIOError."""
        return self._tables.locked(holding, wait=wait)

    def holdings(self) -> list[HoldingRecord]:
        rows = self._tables.execute("SELECT * FROM holdings ORDER BY name")
        return [_holding(*row) for row in rows]

    def holding(self, name: str) -> HoldingRecord:
        for record in self.holdings():
            if record.name == name:
                return record
        raise InputError(f"there is no holding {name!r}: `holdfast holding list` shows them")

    def add_holding(self, record: HoldingRecord) -> None:
        """Write down a holding that is about to be registered; it may be known already."""
        with self._tables.transaction():
            self._tables.execute(
                "INSERT INTO holdings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                tuple(vars(record).values()),
            )

    def registrations(self) -> dict[str, RegistrationRecord]:
        """Return the known transactions that registered holdings, by the holding's name."""
        rows = self._tables.execute("SELECT holding, hash, block, gas FROM registrations")
        return {name: RegistrationRecord(*row) for name, *row in rows}

    def registration(self, name: str) -> RegistrationRecord | None:
        """Return the transaction that registered a holding, if it is known."""
        query = "SELECT hash, block, gas FROM registrations WHERE holding = ?"
        row = self._tables.execute(query, (name,)).fetchone()
        return None if row is None else RegistrationRecord(*row)

    def record_registration(self, name: str, registration: RegistrationRecord) -> None:
        with self._tables.transaction():
            self._tables.execute(
                "INSERT INTO registrations VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (name, *vars(registration).values()),
            )

    def number_holding(self, name: str, number: int) -> None:
        with self._tables.transaction():
            self._tables.execute("UPDATE holdings SET number = ? WHERE name = ?", (number, name))

    def files(self, holding: str) -> list[FileRecord]:
        rows = self._tables.execute(
            "SELECT * FROM files WHERE holding = ? ORDER BY place", (holding,)
        )
        return [_file(row[2:]) for row in rows]

    def file(self, holding: str, name: str) -> FileRecord | None:
        row = self._tables.execute(
            "SELECT * FROM files WHERE holding = ? AND name = ?",
            (holding, os.fsencode(name)),
        ).fetchone()
        return _file(row[2:]) if row else None

    def inventory(self, holding: str, key_id: bytes, sectors: int) -> Inventory:
        entries = (file.entry(sectors) for file in self.files(holding))
        return Inventory(key_id, sectors, tuple(entries))

    def intents(self, holding: str) -> list[Intent]:
        rows = self._tables.execute(
            "SELECT * FROM intents WHERE holding = ? ORDER BY name",
            (holding,),
        )
        return [Intent(_file(row[1:-2]), bool(row[-2]), row[-1]) for row in rows]

    def intent(self, holding: str, name: str) -> Intent | None:
        return next((i for i in self.intents(holding) if i.file.name == name), None)

    def intend(self, holding: str, intent: Intent) -> None:
        """Write down what is about to be done, in place of what was before."""
        with self._tables.transaction():
            self._tables.execute(
                "INSERT INTO intents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (holding, name) DO UPDATE SET source = excluded.source, "
                "file_id = excluded.file_id, version = excluded.version, nonce = excluded.nonce, "
                "length = excluded.length, sha256 = excluded.sha256, "
                "tags_sha256 = excluded.tags_sha256, "
                "removes = excluded.removes, upload = excluded.upload",
                (holding, *_row(intent.file), intent.removes, intent.upload),
            )

    def conclude(self, holding: str, intent: Intent) -> None:
        """Write down that it is done: the node has said so."""
        file = intent.file
        with self._tables.transaction():
            if intent.removes:
                self._tables.execute(
                    "DELETE FROM files WHERE holding = ? AND file_id = ?", (holding, file.file_id)
                )
            else:
                self._tables.execute(
                    "INSERT INTO files VALUES "
                    "((SELECT coalesce(max(place), 0) + 1 FROM files), ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (holding, name) DO UPDATE SET source = excluded.source, "
                    "version = excluded.version, nonce = excluded.nonce, "
                    "length = excluded.length, sha256 = excluded.sha256, "
                    "tags_sha256 = excluded.tags_sha256 WHERE excluded.version > files.version",
                    (holding, *_row(file)),
                )
            self._drop(holding, intent)

    def abandon(self, holding: str, intent: Intent) -> None:
        with self._tables.transaction():
            self._drop(holding, intent)

    def move_source(self, holding: str, name: str, source: str) -> None:
        """Write down that the owner's copy of a file lies elsewhere now."""
        with self._tables.transaction():
            self._tables.execute(
                "UPDATE files SET source = ? WHERE holding = ? AND name = ?",
                (os.fsencode(source), holding, os.fsencode(name)),
            )

    def audits(self, holding: str) -> list[OpenAudit]:
        rows = self._tables.execute(
            "SELECT challenge, target, deadline FROM audits WHERE holding = ? ORDER BY deadline",
            (holding,),
        )
        return [OpenAudit(*row) for row in rows]

    def begin_audit(self, holding: str, audit: OpenAudit) -> None:
        with self._tables.transaction():
            self._tables.execute(
                "INSERT INTO audits VALUES (?, ?, ?, ?)",
                (holding, audit.challenge, audit.target, audit.deadline),
            )

    def end_audit(self, holding: str, audit: OpenAudit, block: int | None) -> None:
        """Forget an audit whose verdict stands in that block of the ledger, if it has one."""
        with self._tables.transaction():
            self._tables.execute(
                "UPDATE holdings SET block = ? WHERE name = ? AND block < ?",
                (block or 0, holding, block or 0),
            )
            self._tables.execute(
                "DELETE FROM audits WHERE holding = ? AND challenge = ?",
                (holding, audit.challenge),
            )

    def _drop(self, holding: str, intent: Intent) -> None:
        self._tables.execute(
            "DELETE FROM intents WHERE holding = ? AND file_id = ? AND nonce = ? AND removes = ?",
            (holding, intent.file.file_id, intent.file.nonce, intent.removes),
        )


def _holding(
    name: str,
    url: str,
    node: bytes,
    ca: str | None,
    salt: bytes,
    sectors: int,
    encrypted: int,
    number: int | None,
    block: int,
) -> HoldingRecord:
    return HoldingRecord(name, url, node, ca, salt, sectors, bool(encrypted), number, block)


def _row(file: FileRecord) -> tuple[Value, ...]:
    name, source, *rest = vars(file).values()
    return os.fsencode(name), os.fsencode(source), *rest


def _file(row: Sequence[Any]) -> FileRecord:
    name, source, *rest = row
    return FileRecord(os.fsdecode(name), os.fsdecode(source), *rest)
