"""The sender's journal: every transaction is written down before it is broadcast.

A chain can't join a database transaction. So a nonce is bound to one intent, with the hash of
each attempt to carry it out, before anyone else hears of it; after a crash the journal tells
what may be under way.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.errors import LedgerError
from holdfast.tables import Place, open_tables

SCHEMA = """
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
    """The intents of one sender on one chain; whoever shares the tables shares the nonces."""

    def __init__(self, place: Place, chain: int, sender: bytes) -> None:
        self._whose = (chain, sender)
        self._tables = open_tables(place, SCHEMA, "the journal of transactions")

    def close(self) -> None:
        self._tables.close()

    def intend(
        self,
        contract: bytes,
        data: bytes,
        gas: int,
        chain_nonce: int,
        sign: Callable[[Intent], Attempt],
    ) -> tuple[Intent, Attempt]:
        """Bind the next nonce to this call and write down its first attempt."""
        with self._tables.transaction():
            (last,) = self._tables.execute(
                "SELECT max(nonce) FROM intents WHERE chain = ? AND sender = ?", self._whose
            ).fetchone()
            nonce = chain_nonce if last is None else max(chain_nonce, last + 1)
            intent = Intent(nonce, contract, data, gas)
            attempt = sign(intent)
            self._tables.execute(
                "INSERT INTO intents (chain, sender, nonce, contract, data, gas) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (*self._whose, nonce, contract, data, gas),
            )
            self._add(intent, attempt)
        return intent, attempt

    def again(self, intent: Intent, attempt: Attempt) -> None:
        """Write down one more attempt, before it is broadcast."""
        self._add(intent, attempt)

    def attempts(self, intent: Intent) -> list[Attempt]:
        """Return what was signed for it, the dearest last."""
        rows = self._tables.execute(
            "SELECT hash, fee, tip, raw FROM attempts "
            "WHERE chain = ? AND sender = ? AND nonce = ? ORDER BY fee",
            (*self._whose, intent.nonce),
        )
        found = [Attempt(*row) for row in rows]
        if not found:
            raise LedgerError(
                f"the transaction with nonce {intent.nonce} was given up by another process, "
                "whose node did not take it"
            )
        return found

    def pending(self) -> list[Intent]:
        rows = self._tables.execute(
            "SELECT nonce, contract, data, gas FROM intents "
            "WHERE chain = ? AND sender = ? AND done = 0 ORDER BY nonce",
            self._whose,
        )
        return [Intent(*row) for row in rows]

    def reopen(self, chain_nonce: int) -> int:
        """Take up again what was done, and what a deep reorganisation undid; return how many."""
        return self._tables.execute(
            "UPDATE intents SET done = 0 "
            "WHERE chain = ? AND sender = ? AND nonce >= ? AND done = 1",
            (*self._whose, chain_nonce),
        ).rowcount

    def seen(self, intent: Intent, block: bytes | None) -> bool:
        """Note the block that has the transaction; return whether it was in another one before."""
        where = (*self._whose, intent.nonce)
        (before,) = self._tables.execute(
            "SELECT block FROM intents WHERE chain = ? AND sender = ? AND nonce = ?", where
        ).fetchone()
        moved = before is not None and before != block
        self._tables.execute(
            "UPDATE intents SET block = ?, reorganised = reorganised + ? "
            "WHERE chain = ? AND sender = ? AND nonce = ?",
            (block, moved, *where),
        )
        return moved

    def finish(self, intent: Intent) -> None:
        self._tables.execute(
            "UPDATE intents SET done = 1 WHERE chain = ? AND sender = ? AND nonce = ?",
            (*self._whose, intent.nonce),
        )

    def abandon(self, intent: Intent) -> None:
        """Give the nonce back, unless later ones wait for it."""
        with self._tables.transaction():
            self._tables.execute(
                "DELETE FROM intents WHERE chain = ? AND sender = ? AND nonce = ? AND NOT EXISTS "
                "(SELECT 1 FROM intents later WHERE later.chain = intents.chain "
                "AND later.sender = intents.sender AND later.nonce > intents.nonce)",
                (*self._whose, intent.nonce),
            )
            self._tables.execute(
                "DELETE FROM attempts WHERE NOT EXISTS (SELECT 1 FROM intents WHERE "
                "intents.chain = attempts.chain AND intents.sender = attempts.sender "
                "AND intents.nonce = attempts.nonce)"
            )

    def reorganisations(self) -> int:
        query = "SELECT coalesce(sum(reorganised), 0) FROM intents WHERE chain = ? AND sender = ?"
        return int(self._tables.execute(query, self._whose).fetchone()[0])

    def _add(self, intent: Intent, attempt: Attempt) -> None:
        paid = (attempt.fee, attempt.tip)
        row = (attempt.hash, *self._whose, intent.nonce, *paid, attempt.raw)
        self._tables.execute(
            "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row
        )
