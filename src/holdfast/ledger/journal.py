"""The sender's journal: every transaction is saved before it is broadcast.

A chain can't join a database transaction. So a nonce is bound to one intent, with the hash of each
attempt to send it, before anyone else learns of it. After a crash the journal says what may be
under way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sqlalchemy import (
    Connection,
    Engine,
    Select,
    and_,
    delete,
    exists,
    false,
    func,
    insert,
    select,
    true,
    update,
)

from holdfast.errors import LedgerError
from holdfast.storage.database import (
    SHARED_SCHEMA,
    connect,
    create_tables,
    open_engine,
    reading,
    transaction,
)
from holdfast.storage.home_schema import SHARED_TABLES, metadata
from holdfast.storage.home_schema import transaction_attempts as attempts
from holdfast.storage.home_schema import transactions as intents
from holdfast.storage.locks import lock_until_commit


@dataclass(frozen=True)
class Intent:
    nonce: int
    contract: bytes
    data: bytes
    gas: int


@dataclass(frozen=True)
class Attempt:
    """A signed transaction; `fee` is the most that it pays per unit of gas in wei, with the tip."""

    hash: bytes
    fee: int
    tip: int
    raw: bytes


class Journal:
    """The intents of one sender on one chain; senders that share a database share their nonces."""

    def __init__(self, engine: Engine, chain: int, sender: bytes) -> None:
        self._engine = engine
        self._key = {"chain": chain, "sender": sender}
        self._sender = and_(intents.c.chain == chain, intents.c.sender == sender)

    @classmethod
    def in_database(cls, address: str, chain: int, sender: bytes) -> Self:
        """Open the journal in a home's database."""
        engine = connect(address)
        create_tables(engine)
        return cls(engine, chain, sender)

    @classmethod
    def in_file(cls, path: Path, chain: int, sender: bytes) -> Self:
        """Open a journal in a file of its own, for a keystore that has no home."""
        engine = connect(str(path))
        with transaction(engine) as connection:
            metadata.create_all(connection, SHARED_TABLES)
        return cls(engine, chain, sender)

    def close(self) -> None:
        self._engine.dispose()

    def intend(
        self,
        contract: bytes,
        data: bytes,
        gas: int,
        chain_nonce: int,
        sign: Callable[[Intent], Attempt],
    ) -> tuple[Intent, Attempt]:
        """Bind the next nonce to this call and save its first attempt."""
        last_nonce = select(func.max(intents.c.nonce)).where(self._sender)
        with transaction(self._engine) as connection:
            lock_until_commit(connection, SHARED_SCHEMA)
            last = connection.execute(last_nonce).scalar()
            nonce = chain_nonce if last is None else max(chain_nonce, last + 1)
            intent = Intent(nonce, contract, data, gas)
            attempt = sign(intent)
            connection.execute(insert(intents).values(**self._key, **vars(intent)))
            self._add(connection, intent, attempt)
        return intent, attempt

    def again(self, intent: Intent, attempt: Attempt) -> None:
        """Save one more attempt, before it is broadcast."""
        with transaction(self._engine) as connection:
            lock_until_commit(connection, SHARED_SCHEMA)
            self._add(connection, intent, attempt)

    def attempts(self, intent: Intent) -> list[Attempt]:
        """Return what was signed for it, the highest fee last."""
        ours = and_(*(attempts.c[name] == value for name, value in self._key.items()))
        rows = self._read(
            select(attempts.c.hash, attempts.c.fee, attempts.c.tip, attempts.c.raw)
            .where(ours, attempts.c.nonce == intent.nonce)
            .order_by(attempts.c.fee)
        )
        if not rows:
            raise LedgerError(
                f"the transaction with nonce {intent.nonce} was given up by another process, "
                "whose node did not take it"
            )
        return [Attempt(*row) for row in rows]

    def pending(self) -> list[Intent]:
        rows = self._read(
            select(intents.c.nonce, intents.c.contract, intents.c.data, intents.c.gas)
            .where(self._sender, intents.c.done.is_(false()))
            .order_by(intents.c.nonce)
        )
        return [Intent(*row) for row in rows]

    def reopen(self, chain_nonce: int) -> int:
        """Resume what was done and a deep reorganisation undid; return how many."""
        undone = intents.c.nonce >= chain_nonce
        with transaction(self._engine) as connection:
            return connection.execute(
                update(intents)
                .where(self._sender, undone, intents.c.done.is_(true()))
                .values(done=False)
            ).rowcount

    def seen(self, intent: Intent, block: bytes | None) -> bool:
        """Save the block that has the transaction; return whether it was in another one before."""
        ours = and_(self._sender, intents.c.nonce == intent.nonce)
        with transaction(self._engine) as connection:
            before = connection.execute(select(intents.c.block).where(ours)).scalar_one()
            moved = before is not None and before != block
            connection.execute(
                update(intents)
                .where(ours)
                .values(block=block, reorganised=intents.c.reorganised + int(moved))
            )
        return moved

    def finish(self, intent: Intent) -> None:
        ours = and_(self._sender, intents.c.nonce == intent.nonce)
        with transaction(self._engine) as connection:
            connection.execute(update(intents).where(ours).values(done=True))

    def abandon(self, intent: Intent) -> None:
        """Give the nonce back, unless later ones wait for it."""
        later = intents.alias()
        waiting = exists().where(
            *(later.c[name] == value for name, value in self._key.items()),
            later.c.nonce > intent.nonce,
        )
        key = ("chain", "sender", "nonce")
        kept = exists().where(*(intents.c[name] == attempts.c[name] for name in key))
        with transaction(self._engine) as connection:
            lock_until_commit(connection, SHARED_SCHEMA)
            connection.execute(
                delete(intents).where(self._sender, intents.c.nonce == intent.nonce, ~waiting)
            )
            connection.execute(delete(attempts).where(~kept))

    def reorganisations(self) -> int:
        total = select(func.coalesce(func.sum(intents.c.reorganised), 0)).where(self._sender)
        return int(self._read(total)[0][0])

    def _read(self, query: Select[Any]) -> list[Any]:
        with transaction(reading(self._engine)) as connection:
            return list(connection.execute(query))

    def _add(self, connection: Connection, intent: Intent, attempt: Attempt) -> None:
        known = select(attempts.c.hash).where(attempts.c.hash == attempt.hash)
        if connection.execute(known).first() is None:
            row = {**self._key, "nonce": intent.nonce, **vars(attempt)}
            connection.execute(insert(attempts).values(row))


def chains(address: str) -> set[int]:
    """Return the chains that transactions of a database were sent on."""
    with open_engine(address, read_only=True) as engine, transaction(engine) as connection:
        return set(connection.execute(select(intents.c.chain).distinct()).scalars())
