"""Copies of a home's tables, each of one moment, while others write to them.

A copy is a file of SQLite whatever the tables are in, so that one form of backup serves both, and a
home can move from one to the other.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, func, insert, select, text

from holdfast.errors import InputError, StorageError
from holdfast.storage.database import connect, migrate, opened, transaction
from holdfast.storage.schema import metadata
from holdfast.tables import PostgresSchema, open_tables

ROWS = 5000  # at a time


def copy_file(source: Path, target: Path) -> None:
    """Copy a file of SQLite as it is at one moment; writers go on meanwhile."""
    with _told(source), _reading(source) as original, closing(sqlite3.connect(target)) as copy:
        original.backup(copy)


def copy_control(address: str, target: Path) -> None:
    """Copy the control plane's database."""
    if "://" not in address:
        copy_file(Path(address), target)
        return
    with opened(address, read_only=True) as engine, _fresh(target) as copy:
        moment = engine.execution_options(isolation_level="REPEATABLE READ")
        with transaction(moment) as source, transaction(copy) as sink:
            _pour(source, sink)


@contextmanager
def control_filled(source: Path, address: str) -> Iterator[None]:
    """Bring a copy of the control plane's database into an empty one of PostgreSQL.

    It is there for others once the context ends well, and is empty again if it does not.
    """
    copy, engine = connect(str(source), read_only=True), connect(address)
    try:
        migrate(engine)
        with transaction(copy) as rows, transaction(engine) as sink:
            for table in metadata.sorted_tables:
                if sink.execute(select(func.count()).select_from(table)).scalar_one():
                    raise InputError("the database of the settings is in use: name an empty one")
            _pour(rows, sink)
            for table in metadata.sorted_tables:
                _go_on_counting(sink, table.name)
            yield
    finally:
        copy.dispose()
        engine.dispose()


def copy_room(room: PostgresSchema, script: str, target: Path) -> None:
    """Copy tables of the home from PostgreSQL into a file that the script makes."""
    from holdfast.postgres import snapshot  # noqa: PLC0415 - an extra

    with closing(sqlite3.connect(target)) as copy, _told(target), snapshot(room) as rows_of:
        copy.executescript(script)
        for table, columns in _tables(copy):
            copy.executemany(_insert(table, columns), rows_of(table, columns))
        copy.commit()


@contextmanager
def room_filled(
    source: Path, script: str, room: PostgresSchema, *, shared: bool = False
) -> Iterator[None]:
    """Bring a copy of the home's tables into PostgreSQL, as above.

    Rows of others may be there if the room is shared.
    """
    with (
        closing(open_tables(room, script, "the home's tables")) as tables,
        _told(source),
        closing(sqlite3.connect(source)) as copy,
        tables.transaction(),
    ):
        for table, columns in _tables(copy):
            query = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 - names of our own
            if not shared and tables.execute(f"{query} LIMIT 1").fetchone():
                raise InputError("the database of the settings is in use: name an empty one")
            for row in copy.execute(query):
                tables.execute(f"{_insert(table, columns)} ON CONFLICT DO NOTHING", row)
        yield


def _insert(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608 - names of our own tables


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
        yield file


@contextmanager
def _fresh(path: Path) -> Iterator[Engine]:
    engine = connect(str(path))
    try:
        migrate(engine)
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"{path} can't be copied: {error}") from error


def _tables(file: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Return the names of the tables and of their columns, in the order of their making."""
    named = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
    return [
        (name, [row[1] for row in file.execute(f"PRAGMA table_info({name})")])
        for (name,) in named.fetchall()
    ]


def _pour(source: Connection, sink: Connection) -> None:
    streamed = source.execution_options(yield_per=ROWS)
    for table in metadata.sorted_tables:
        for rows in streamed.execute(select(table)).mappings().partitions():
            sink.execute(insert(table), [dict(row) for row in rows])


def _go_on_counting(connection: Connection, table: str) -> None:
    """Have new rows numbered from the last one on."""
    sequence = connection.execute(
        text(
            "SELECT pg_get_serial_sequence(:name, column_name) FROM information_schema.columns "
            "WHERE table_name = :name AND column_name = 'id' AND table_schema = current_schema()"
        ),
        {"name": table},
    ).scalar()
    if sequence is not None:
        connection.exec_driver_sql(
            f"SELECT setval('{sequence}', coalesce(max(id), 0) + 1, false) FROM {table}"  # noqa: S608
        )
