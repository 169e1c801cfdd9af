"""A few tables under one set of statements, in a file of SQLite or in a schema of PostgreSQL.

Statements keep to what both understand; `?` stands for a value. Every connection of SQLite belongs
to one thread.
"""

import fcntl
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from holdfast import atomic
from holdfast.errors import InputError, StorageError

PATIENCE = 60  # seconds to wait for another writer
BREATH = 0.005  # seconds between two attempts

Value = int | str | bytes | None


@dataclass(frozen=True)
class PostgresSchema:
    """A schema of a PostgreSQL database, whose address is not shown: it may have a password."""

    address: str = field(repr=False)
    schema: str


Place = Path | PostgresSchema


class Rows(Protocol):
    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


class Tables(Protocol):
    def execute(self, statement: str, values: Sequence[Value] = ()) -> Rows: ...

    def transaction(self) -> AbstractContextManager[None]:
        """Do all of it or nothing, durably, and while nobody else writes."""

    def locked(self, name: str, *, wait: bool) -> AbstractContextManager[None]:
        """Keep what has that name from others, or raise BlockingIOError if they have it.

        Whoever dies lets go of it.
        """

    def close(self) -> None: ...


def open_tables(place: Place, script: str, what: str) -> Tables:
    """Open the tables that the script makes where they are missing; `what` names them in errors.

    Without a script nothing is made.
    """
    if isinstance(place, Path):
        return SqliteTables(place, script, what)
    try:
        # An extra, which whoever keeps to files does without.
        from holdfast.postgres import PostgresTables  # noqa: PLC0415
    except ImportError as error:
        raise InputError(
            "PostgreSQL needs a driver: install Holdfast with its extra, holdfast[postgres]"
        ) from error
    return PostgresTables(place, script, what)


def open_file(path: Path) -> sqlite3.Connection:
    """Open a file of SQLite in which one may write while others read, and what is said lasts.

    A new one is its owner's alone.
    """
    if str(path) != ":memory:":
        with suppress(OSError):  # of which SQLite complains
            atomic.make_private(path)
    file = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)
    make_durable(file)
    return file


def make_durable(file: sqlite3.Connection) -> None:
    """Have a file's readers and its writer not wait for each other, and commits be on the disk.

    Several may make it so at once, the first time: SQLite then refuses without waiting, whatever
    timeout the connection has.
    """
    patient_until = time.monotonic() + PATIENCE
    while True:
        try:
            file.execute("PRAGMA journal_mode = WAL").close()
            break
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # for whatever reason
            if not busy or time.monotonic() > patient_until:
                raise
            time.sleep(BREATH)
    file.execute("PRAGMA synchronous = FULL").close()


class SqliteTables:
    def __init__(self, path: Path, script: str, what: str) -> None:
        self._path, self._what = path, f"{what} in {path}"
        with self._told():
            self._db = open_file(path)
            self._db.executescript(script)

    def close(self) -> None:
        self._db.close()

    def execute(self, statement: str, values: Sequence[Value] = ()) -> Rows:
        with self._told():
            return self._db.execute(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    @contextmanager
    def locked(self, name: str, *, wait: bool) -> Iterator[None]:
        path = self._path.with_name(f"{name}.lock")
        with open(path, "wb", opener=atomic.private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StorageError(f"{self._what} can't be used: {error}") from error
