"""Locks by name that all hosts of a database respect; a process that dies releases its own."""

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, func, select, text

from holdfast import atomic
from holdfast.errors import StorageError
from holdfast.storage.database import storage_errors
from holdfast.storage.sqlite import LOCK_TIMEOUT_SECONDS


@contextmanager
def locked(engine: Engine, name: str, *, wait: bool) -> Iterator[Connection | None]:
    """Hold the lock of that name, or raise BlockingIOError if another process has it.

    With PostgreSQL the lock belongs to the connection that is yielded: write by that one alone, in
    `transaction_on`, so that a host that lost the lock with its connection writes nothing more.
    """
    if engine.dialect.name == "sqlite":
        path = Path(str(engine.url.database)).with_name(f"{name}.lock")
        with open(path, "wb", opener=atomic.private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield None
        return
    key = _key(engine, name)
    with engine.connect() as connection:
        ask = func.pg_advisory_lock if wait else func.pg_try_advisory_lock
        with storage_errors(), connection.begin():
            granted = connection.execute(select(ask(key))).scalar()
        if granted is False:
            raise BlockingIOError
        try:
            yield connection
        finally:
            if not connection.invalidated:
                with storage_errors(), connection.begin():
                    connection.execute(select(func.pg_advisory_unlock(key)))


@contextmanager
def transaction_on(connection: Connection) -> Iterator[Connection]:
    """Do a transaction on the connection that holds a lock; refuse if it was lost."""
    if connection.invalidated:
        raise StorageError(
            "the connection to the database was lost, and others may have changed the holding"
        )
    with storage_errors(), connection.begin():
        yield connection


def lock_until_commit(connection: Connection, name: str) -> None:
    """Wait until no other transaction holds this lock; SQLite has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'"))
        connection.execute(select(func.pg_advisory_xact_lock(_number(name))))


def _key(engine: Engine, name: str) -> int:
    return _number(f"{engine.get_execution_options()['schema']} {name}")


def _number(name: str) -> int:
    """Return the number of a lock, of which a PostgreSQL database has 2^64."""
    digest = hashlib.sha256(f"holdfast {name}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
