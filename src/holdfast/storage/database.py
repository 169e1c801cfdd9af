"""Connects to the home's database, SQLite in a file or PostgreSQL, and brings it to our schema.

In PostgreSQL every home has a schema of its own, which the address names: `?schema=NAME`. The
transactions on a chain are in one that all homes of the database share.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
)

from holdfast.errors import InputError, StorageError
from holdfast.storage.sqlite import (
    LOCK_TIMEOUT_SECONDS,
    NOTICE_SECONDS,
    is_busy,
    make_durable,
    make_private,
    set_lock_timeout,
)
from holdfast.storage.waiting import say_waiting

MIGRATIONS = Path(__file__).parent / "migrations"
# The newest revision. A database that has it needs no Alembic, which is slow to import.
HEAD = "0001"
MIGRATION_LOCK = 0x486F6C6466617374  # an advisory lock of PostgreSQL
SHARED_SCHEMA = "holdfast_transactions"
DEFAULT_SCHEMA = "public"
NOT_SERVED = "nothing is audited yet: start `holdfast serve`"
# The server notices within 90 seconds that a host is gone, by default after two hours. What is
# saved before it takes effect must survive a crash of the server, whatever its default is.
SESSION = f"""
SET search_path TO {{schema}}, {SHARED_SCHEMA};
SET tcp_keepalives_idle = 60;
SET tcp_keepalives_interval = 10;
SET tcp_keepalives_count = 3;
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""


class Standing(StrEnum):
    """How a database's schema compares with this version's."""

    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"


def connect(address: str, *, read_only: bool = False) -> Engine:
    """Return the engine for a file's path or an address such as postgresql://host/holdfast.

    A read-only engine doesn't hold up writers, and a transaction of it sees one moment.
    """
    if address.startswith(("postgresql:", "postgres:")):
        return _postgres_engine(address.partition(":")[2], read_only=read_only)
    if "://" in address:
        raise InputError(f"{_shown(address)} is no database: name a file or postgresql://host/name")
    return _sqlite_engine(address, read_only=read_only)


def exists(address: str) -> bool:
    """Return whether connecting to it would not create it."""
    return "://" in address or Path(address).exists()


@contextmanager
def open_engine(address: str, *, read_only: bool = False) -> Iterator[Engine]:
    """Yield an engine, and close its connections at the end."""
    engine = connect(address, read_only=read_only)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def open_database(address: str, *, read_only: bool) -> Iterator[Engine]:
    """Yield an engine for the database of a home that has been served by this version."""
    if not exists(address):
        raise InputError(NOT_SERVED)
    with open_engine(address, read_only=read_only) as engine:
        check_schema(engine)
        with transaction(reading(engine)) as connection:
            if not connection.exec_driver_sql("SELECT 1 FROM promotions LIMIT 1").first():
                raise InputError(NOT_SERVED)  # the first champion is set at the first start
        yield engine


def standing_of(address: str) -> tuple[Standing | None, str | None]:
    """Return how its schema compares with ours, and its revision; None if there is no database."""
    if not exists(address):
        return None, None
    with open_engine(address, read_only=True) as engine:
        return _standing(engine)


def create_tables(engine: Engine) -> None:
    """Create the tables in an empty database; refuse one with another version's schema."""
    if _standing(engine)[0] is Standing.EMPTY:
        migrate(engine)
    else:
        check_schema(engine)


def migrate(engine: Engine) -> None:
    """Bring the schema to this version's; refuse one that a newer version made."""
    if _standing(engine)[0] is Standing.CURRENT:
        return
    with transaction(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            for name in (engine.get_execution_options()["schema"], SHARED_SCHEMA):
                connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
        standing, revision = schema(connection)
        if standing is Standing.NEWER:
            raise InputError(_made_by_newer(revision))
        if standing is not Standing.CURRENT:
            _upgrade(connection)


def schema(connection: Connection) -> tuple[Standing, str | None]:
    """Return how the schema compares with ours, and its revision."""
    tables = inspect(connection)
    revision = None
    if tables.has_table("alembic_version"):
        revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if revision is None:
        if tables.has_table("catalogue"):
            raise InputError("the database has tables but no version: restore it from a backup")
        return Standing.EMPTY, None
    if revision == HEAD:
        return Standing.CURRENT, revision
    return (Standing.OLDER if revision in known_revisions() else Standing.NEWER), revision


def known_revisions() -> set[str]:
    """Return the schemas of this version and of those before it."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - rarely needed

    return {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Yield a connection whose work is committed at the end, or undone."""
    with storage_errors(), engine.begin() as connection:
        yield connection


def reading(engine: Engine) -> Engine:
    """Return the engine for transactions that only read: in SQLite they wait for no writer."""
    return engine.execution_options(read_only=True)


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise what the driver reports as a StorageError, except for violated constraints."""
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        if is_busy(error.orig):
            raise StorageError(
                f"another process has been writing to the database for {LOCK_TIMEOUT_SECONDS} "
                "seconds: try again when it has ended"
            ) from error
        reason = " ".join(str(error.orig).split())
        raise StorageError(f"the database can't be used: {reason}") from error


def _standing(engine: Engine) -> tuple[Standing, str | None]:
    with transaction(reading(engine)) as connection:
        return schema(connection)


def check_schema(engine: Engine) -> None:
    """Raise if the database has another schema than this version's."""
    standing, revision = _standing(engine)
    if standing is Standing.NEWER:
        raise InputError(_made_by_newer(revision))
    if standing is not Standing.CURRENT:
        raise InputError(
            f"the database has the schema of an older Holdfast ({revision}): `holdfast serve` "
            "brings it up to date"
        )


def _made_by_newer(revision: str | None) -> str:
    return f"the database was made by a newer Holdfast (schema {revision}): upgrade this one"


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - rarely needed
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StorageError(f"the database could not be brought up to date: {error}") from error


def _sqlite_engine(path: str, *, read_only: bool) -> Engine:
    engine = _engine(
        _url(f"sqlite:///{path}"),
        connect_args={"timeout": LOCK_TIMEOUT_SECONDS},
        execution_options={"read_only": read_only},
    )
    if not read_only:
        event.listen(engine, "do_connect", lambda *_: make_private(Path(path)))
    event.listen(engine, "connect", _prepare_to_read if read_only else _prepare_to_write)
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    if connection.get_execution_options()["read_only"]:
        connection.exec_driver_sql("BEGIN")
        return
    file: Any = connection.connection.driver_connection
    set_lock_timeout(file, NOTICE_SECONDS)
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    except OperationalError as error:
        if not is_busy(error.orig):
            raise
        say_waiting(
            "another process is writing to the database: waiting for it, at most "
            f"{LOCK_TIMEOUT_SECONDS} seconds"
        )
        set_lock_timeout(file, LOCK_TIMEOUT_SECONDS - NOTICE_SECONDS)
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        set_lock_timeout(file, LOCK_TIMEOUT_SECONDS)


def _prepare_to_read(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA query_only = ON").close()


def _prepare_to_write(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # so that we say BEGIN IMMEDIATE ourselves
    make_durable(connection)
    connection.execute("PRAGMA foreign_keys = ON").close()


def _postgres_engine(rest: str, *, read_only: bool) -> Engine:
    url = _url(f"postgresql+psycopg:{rest}")
    name = url.query.get("schema", DEFAULT_SCHEMA)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name):
        raise InputError("the schema of a database has letters, digits and underscores")
    options = {"schema": name} | ({"postgresql_readonly": True} if read_only else {})
    engine = _engine(
        url.difference_update_query(["schema"]),
        paramstyle="format",
        isolation_level="REPEATABLE READ" if read_only else "READ COMMITTED",
        execution_options=options,
    )

    def prepare(connection: Any, _record: Any) -> None:
        connection.autocommit = True
        connection.execute(SESSION.format(schema=name))
        connection.autocommit = False

    event.listen(engine, "connect", prepare)
    return engine


def _url(address: str) -> URL:
    try:
        return make_url(address)
    except (ArgumentError, ValueError) as error:
        raise InputError(f"{_shown(address)} is no address of a database") from error


def _engine(url: URL, **options: Any) -> Engine:
    try:
        return create_engine(url, **options)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise InputError(
            "PostgreSQL needs a driver: install Holdfast with its extra, holdfast[postgres]"
        ) from error


def _shown(address: str) -> str:
    """Return the address without what may be a password."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
