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
from holdfast.storage.waiting import say_waiting


@contextmanager
def locked(engine: Engine, name: str, *, wait: bool) -> Iterator[Connection | None]:
    """Hold the lock of that name, or raise BlockingIOError if another process has it.

    With PostgreSQL the lock belongs to the connection that is yielded: write by that one alone, in
    `transaction_on`, so that a host that lost the lock with its connection writes nothing more.
    """
    if engine.dialect.name == "sqlite":
        path = Path(str(engine.url.database)).with_name(f"{name}.lock")
        with open(path, "wb", opener=atomic.private) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    raise
                _say_waiting(name)
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield None
        return
    key = _key(engine, name)
    with engine.connect() as connection:
        with storage_errors(), connection.begin():
            granted = connection.execute(select(func.pg_try_advisory_lock(key))).scalar()
        if not granted:
            if not wait:
                raise BlockingIOError
            _say_waiting(name)
            with storage_errors(), connection.begin():
                connection.execute(select(func.pg_advisory_lock(key)))
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


def _say_waiting(name: str) -> None:
    say_waiting(f"another process is changing {name}: waiting until it has ended")


def _key(engine: Engine, name: str) -> int:
    return _number(f"{engine.get_execution_options()['schema']} {name}")


def _number(name: str) -> int:
    """Return the number of a lock, of which a PostgreSQL database has 2^64."""
    digest = hashlib.sha256(f"holdfast {name}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
