"""The sender's journal: every transaction is written down before it is broadcast.

A chain can't join a database transaction. So a nonce is bound to one intent, with the hash of
each attempt to carry it out, before anyone else hears of it; after a crash the journal tells
what may be under way.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Cursor

from holdfast.errors import StorageError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS intents (
  chain INTEGER NOT NULL, sender BLOB NOT NULL, nonce INTEGER NOT NULL, contract BLOB NOT NULL,
  data BLOB NOT NULL, gas INTEGER NOT NULL, block BLOB, done INTEGER NOT NULL DEFAULT 0,
  reorganised INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chain, sender, nonce)
);
CREATE TABLE IF NOT EXISTS attempts (
  hash BLOB PRIMARY KEY, chain INTEGER NOT NULL, sender BLOB NOT NULL, nonce INTEGER NOT NULL,
  fee INTEGER NOT NULL, tip INTEGER NOT NULL, raw BLOB NOT NULL
);
"""


@dataclass(frozen=True)
class Intent:
    nonce: int
    contract: bytes
    data: bytes
    gas: int


@dataclass(frozen=True)
class Attempt:
    """A signed transaction; `fee` is the most that it pays a unit of gas, in wei, tip and all."""

    hash: bytes
    fee: int
    tip: int
    raw: bytes


class Journal:
    """The intents of one sender on one chain; processes that share the file share the nonces."""

    def __init__(self, path: Path, chain: int, sender: bytes) -> None:
        self._whose = (chain, sender)
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=60)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise StorageError(f"{path} can't be used as a journal: {error}") from error

    def close(self) -> None:
        self._db.close()

    def intend(
        self,
        contract: bytes,
        data: bytes,
        gas: int,
        chain_nonce: int,
        sign: Callable[[Intent], Attempt],
    ) -> tuple[Intent, Attempt]:
        """Bind the next nonce to this call and write down its first attempt."""
        self._execute("BEGIN IMMEDIATE")
        try:
            (last,) = self._execute(
                "SELECT max(nonce) FROM intents WHERE chain = ? AND sender = ?", self._whose
            ).fetchone()
            nonce = chain_nonce if last is None else max(chain_nonce, last + 1)
            intent = Intent(nonce, contract, data, gas)
            attempt = sign(intent)
            self._execute(
                "INSERT INTO intents (chain, sender, nonce, contract, data, gas) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (*self._whose, nonce, contract, data, gas),
            )
            self._add(intent, attempt)
        except BaseException:
            self._execute("ROLLBACK")
            raise
        self._execute("COMMIT")
        return intent, attempt

    def again(self, intent: Intent, attempt: Attempt) -> None:
        """Write down one more attempt, before it is broadcast."""
        self._add(intent, attempt)

    def attempts(self, intent: Intent) -> list[Attempt]:
        rows = self._execute(
            "SELECT hash, fee, tip, raw FROM attempts "
            "WHERE chain = ? AND sender = ? AND nonce = ? ORDER BY fee",
            (*self._whose, intent.nonce),
        )
        return [Attempt(*row) for row in rows]

    def pending(self) -> list[Intent]:
        rows = self._execute(
            "SELECT nonce, contract, data, gas FROM intents "
            "WHERE chain = ? AND sender = ? AND NOT done ORDER BY nonce",
            self._whose,
        )
        return [Intent(*row) for row in rows]

    def reopen(self, chain_nonce: int) -> int:
        """Take up again what was done, and what a deep reorganisation undid; return how many."""
        return self._execute(
            "UPDATE intents SET done = 0 WHERE chain = ? AND sender = ? AND nonce >= ? AND done",
            (*self._whose, chain_nonce),
        ).rowcount

    def seen(self, intent: Intent, block: bytes | None) -> bool:
        """Note the block that has the transaction; return whether it was in another one before."""
        where = (*self._whose, intent.nonce)
        (before,) = self._execute(
            "SELECT block FROM intents WHERE chain = ? AND sender = ? AND nonce = ?", where
        ).fetchone()
        moved = before is not None and before != block
        self._execute(
            "UPDATE intents SET block = ?, reorganised = reorganised + ? "
            "WHERE chain = ? AND sender = ? AND nonce = ?",
            (block, moved, *where),
        )
        return moved

    def finish(self, intent: Intent) -> None:
        self._execute(
            "UPDATE intents SET done = 1 WHERE chain = ? AND sender = ? AND nonce = ?",
            (*self._whose, intent.nonce),
        )

    def abandon(self, intent: Intent) -> None:
        """Give the nonce back, unless later ones wait for it."""
        self._execute(
            "DELETE FROM intents WHERE chain = ? AND sender = ? AND nonce = ? AND NOT EXISTS "
            "(SELECT 1 FROM intents later WHERE later.chain = intents.chain "
            "AND later.sender = intents.sender AND later.nonce > intents.nonce)",
            (*self._whose, intent.nonce),
        )
        self._execute(
            "DELETE FROM attempts WHERE NOT EXISTS (SELECT 1 FROM intents WHERE "
            "intents.chain = attempts.chain AND intents.sender = attempts.sender "
            "AND intents.nonce = attempts.nonce)"
        )

    def reorganisations(self) -> int:
        query = "SELECT total(reorganised) FROM intents WHERE chain = ? AND sender = ?"
        return int(self._execute(query, self._whose).fetchone()[0])

    def _execute(self, statement: str, values: tuple[int | bytes | None, ...] = ()) -> Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise StorageError(f"the journal of transactions can't be used: {error}") from error

    def _add(self, intent: Intent, attempt: Attempt) -> None:
        paid = (attempt.fee, attempt.tip)
        row = (attempt.hash, *self._whose, intent.nonce, *paid, attempt.raw)
        self._execute("INSERT OR IGNORE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)", row)
