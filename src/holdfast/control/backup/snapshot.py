"""Copies a home's database as it is at one moment, while others write to it.

A copy is always a SQLite file, so one form of backup serves both databases, and a home can move
from one to the other.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Table, func, insert, select, text
from sqlalchemy.dialects import postgresql

from holdfast.errors import InputError, StorageError
from holdfast.storage.database import check_schema, migrate, open_engine, transaction
from holdfast.storage.home_schema import SHARED_TABLES
from holdfast.storage.schema import TABLES, former_names, holdings

ROWS_AT_ONCE = 5000


def copy_file(source: Path, target: Path) -> None:
    """Copy a SQLite file as it is at one moment; writers don't have to wait."""
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
    except sqlite3.Error as error:
        raise StorageError(f"{source} can't be copied: {error}") from error


def copy_database(address: str, target: Path) -> None:
    """Copy a home's database into a SQLite file."""
    if "://" not in address:
        copy_file(Path(address), target)
        return
    with open_engine(address, read_only=True) as engine, open_engine(str(target)) as copy:
        check_schema(engine)
        migrate(copy)
        snapshot = engine.execution_options(isolation_level="REPEATABLE READ")
        with transaction(snapshot) as source, transaction(copy) as sink:
            for table in TABLES:
                _copy_rows(table, source, sink)
            _reserve_ids(sink)


def fill_database(source: Path, address: str) -> None:
    """Copy a SQLite file into an empty database of PostgreSQL, all of it or nothing.

    Other owners may have rows in the tables that all of them share.
    """
    with open_engine(str(source), read_only=True) as copy, open_engine(address) as engine:
        migrate(engine)
        with transaction(copy) as rows, transaction(engine) as sink:
            for table in TABLES:
                if table not in SHARED_TABLES and sink.execute(select(table).limit(1)).first():
                    raise InputError("the database of the settings is in use: name an empty one")
                _copy_rows(table, rows, sink)
                _restart_sequence(sink, table.name)
            _reserve_ids(sink)


def _copy_rows(table: Table, source: Connection, sink: Connection) -> None:
    statement = insert(table)
    if table in SHARED_TABLES and sink.dialect.name == "postgresql":
        statement = postgresql.insert(table).on_conflict_do_nothing()
    streamed = source.execution_options(yield_per=ROWS_AT_ONCE)
    for rows in streamed.execute(select(table)).mappings().partitions():
        sink.execute(statement, [dict(row) for row in rows])


def _reserve_ids(connection: Connection) -> None:
    """Keep the ids of removed holdings from being used again: audits and leaves have them."""
    query = select(func.max(former_names.c.holding))
    last, used = connection.execute(query).scalar(), select(func.max(holdings.c.id))
    if last is not None and last > (connection.execute(used).scalar() or 0):
        if connection.dialect.name == "postgresql":
            name = "pg_get_serial_sequence('holdings', 'id')"
            connection.execute(text(f"SELECT setval({name}, :last)"), {"last": last})
        else:
            connection.execute(text("DELETE FROM sqlite_sequence WHERE name = 'holdings'"))
            numbered = "INSERT INTO sqlite_sequence (name, seq) VALUES ('holdings', :last)"
            connection.execute(text(numbered), {"last": last})


def _restart_sequence(connection: Connection, table: str) -> None:
    """Have the next row numbered after the last one."""
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
