"""Tables in PostgreSQL, which any number of hosts share: with the guarantees that a file gives one.

A connection that is lost is made again, but never while something is locked by it: whoever lost a
lock writes nothing more.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from holdfast.errors import InputError, StorageError
from holdfast.tables import PATIENCE, PostgresSchema, Rows, Value

# PostgreSQL's words for the types of SQLite. Texts are compared byte by byte there.
TYPES = {"BLOB": "BYTEA", "INTEGER": "BIGINT", "TEXT": 'TEXT COLLATE "C"'}
# The server notices within 90 seconds that a host is gone, by default after two hours. What is
# written down before an effect must outlive the server's fall, whatever its settings say.
SESSION = """
SET search_path TO {schema};
SET tcp_keepalives_idle = 60;
SET tcp_keepalives_interval = 10;
SET tcp_keepalives_count = 3;
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""


class PostgresTables:
    def __init__(self, room: PostgresSchema, script: str, what: str) -> None:
        self._room, self._what = room, f"{what} in PostgreSQL"
        self._keeps = False  # a lock, by this very connection
        for ours, theirs in TYPES.items():
            script = script.replace(ours, theirs)
        self._db = self._connected()
        if not script:  # it is only read
            return
        try:
            with self.transaction():
                self._db.execute(f"CREATE SCHEMA IF NOT EXISTS {room.schema}".encode())
                self._db.execute(script.encode())
        except StorageError:
            self.close()
            raise

    def close(self) -> None:
        self._db.close()

    def execute(self, statement: str, values: Sequence[Value] = ()) -> Rows:
        numbers = [int(each) if isinstance(each, bool) else each for each in values]
        with self._told():
            return self._alive().execute(statement.replace("?", "%s").encode(), numbers)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._told(), self._alive().transaction():
            self._db.execute(f"SET LOCAL lock_timeout = '{PATIENCE}s'".encode())
            self._db.execute("SELECT pg_advisory_xact_lock(%s)", [self._key("")])
            yield

    @contextmanager
    def locked(self, name: str, *, wait: bool) -> Iterator[None]:
        with self._told():
            ask = "SELECT pg_advisory_lock(%s)" if wait else "SELECT pg_try_advisory_lock(%s)"
            got = self._alive().execute(ask.encode(), [self._key(name)]).fetchone()
        if got == (False,):
            raise BlockingIOError
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False
            if not self._db.closed:
                self.execute("SELECT pg_advisory_unlock(?)", [self._key(name)])

    def _key(self, name: str) -> int:
        """Return the number of a lock, of which PostgreSQL has 2^64 a database."""
        digest = hashlib.sha256(f"holdfast {self._room.schema} {name}".encode()).digest()
        return int.from_bytes(digest[:8], signed=True)

    def _alive(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._db.closed:
            if self._keeps:
                raise StorageError(f"{self._what} was out of reach, and others may have changed it")
            self._db = self._connected()
        return self._db

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        with self._told():
            try:
                db = psycopg.connect(self._room.address, autocommit=True)
            except psycopg.ProgrammingError:  # whose words may have a part of the password
                raise InputError(
                    "the database's address can't be read: write special characters of user and "
                    "password as a percent sign and their code"
                ) from None
            # Each statement must see what was committed before it got the lock.
            db.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            db.execute(SESSION.format(schema=self._room.schema).encode())
        return db

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            raise StorageError(f"{self._what} can't be used: {reason}") from error


@contextmanager
def snapshot(
    room: PostgresSchema,
) -> Iterator[Callable[[str, Sequence[str]], Iterator[tuple[Any, ...]]]]:
    """Yield what reads a table's columns, all tables as they are at one moment."""
    try:
        with psycopg.connect(room.address) as db:
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            db.read_only = True

            def rows_of(table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
                with db.cursor(f"copy_{table}") as cursor:
                    where = f"{room.schema}.{table}"
                    query = f"SELECT {', '.join(columns)} FROM {where}"  # noqa: S608 - our own names
                    cursor.execute(query.encode())
                    yield from cursor

            yield rows_of
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        raise StorageError(f"the home's tables in PostgreSQL can't be copied: {reason}") from error
