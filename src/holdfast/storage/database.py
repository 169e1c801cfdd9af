"""The database: SQLite in a file or PostgreSQL by its address, brought to our schema."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from holdfast import atomic
from holdfast.errors import InputError, StorageError
from holdfast.tables import PATIENCE, make_durable

MIGRATIONS = Path(__file__).parent / "migrations"
# The newest of them. A database that has it needs no Alembic, which is slow to import.
HEAD = "0001"
MIGRATING = 0x486F6C6466617374  # the lock that PostgreSQL keeps for whoever makes the tables


class Standing(StrEnum):
    """How a database's schema stands to this version's."""

    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"


def connect(address: str, *, read_only: bool = False) -> Engine:
    """Return the engine for a file's path or an address such as postgresql://host/holdfast.

    One that only reads holds no writer up.
    """
    if address.startswith(("postgresql:", "postgres:")):
        rest = address.partition(":")[2]
        options = {"execution_options": {"postgresql_readonly": True}} if read_only else {}
        return _engine(f"postgresql+psycopg:{rest}", paramstyle="format", **options)
    if "://" in address:
        raise InputError(f"{_shown(address)} is no database: name a file or postgresql://host/name")
    engine = _engine(f"sqlite:///{address}", connect_args={"timeout": PATIENCE})
    if not read_only:
        event.listen(engine, "do_connect", lambda *_: _make_private(Path(address)))
    event.listen(engine, "connect", _prepare_to_read if read_only else _prepare)
    begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def is_there(address: str) -> bool:
    """Return whether it may be opened without being made by that."""
    return "://" in address or Path(address).exists()


@contextmanager
def opened(address: str, *, read_only: bool) -> Iterator[Engine]:
    """Yield an engine for a database that is there, and has this version's schema."""
    if not is_there(address):
        raise InputError(f"there is no {address} yet: `holdfast serve` makes it")
    engine = connect(address, read_only=read_only)
    try:
        with transaction(engine) as connection:
            standing, found = schema(connection)
        if standing is not Standing.CURRENT:
            raise InputError(
                f"the database has another schema ({found}) than this Holdfast: "
                "`holdfast serve` brings an older one up to date"
            )
        yield engine
    finally:
        engine.dispose()


def schema(connection: Connection) -> tuple[Standing, str | None]:
    """Return how the schema stands to ours, and its revision."""
    if not inspect(connection).has_table("alembic_version"):
        return Standing.EMPTY, None
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if found is None:
        return Standing.EMPTY, None
    if found == HEAD:
        return Standing.CURRENT, found
    return (Standing.OLDER if found in known_revisions() else Standing.NEWER), found


def known_revisions() -> set[str]:
    """Return the schemas that this version and those before it have had."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - rarely needed

    return {each.revision for each in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}


def migrate(engine: Engine) -> None:
    """Bring the schema to this version's; refuse one that a newer version made."""
    with transaction(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(MIGRATING)))
        standing, found = schema(connection)
        if standing is Standing.CURRENT:
            return
        if standing is Standing.NEWER:
            raise InputError(
                f"the database was made by a newer Holdfast (schema {found}): upgrade this one"
            )
        _upgrade(connection)


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


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Yield a connection whose work is committed at the end, or undone."""
    try:
        with engine.begin() as connection:
            yield connection
    except IntegrityError:
        raise
    except DBAPIError as error:
        raise StorageError(f"the database can't be used: {error.orig}") from error


def _engine(address: str, **options: Any) -> Engine:
    try:
        return create_engine(make_url(address), **options)
    except (ArgumentError, ValueError) as error:
        raise InputError(f"{_shown(address)} is no address of a database") from error
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise InputError(
            "PostgreSQL needs a driver: install Holdfast with its extra, holdfast[postgres]"
        ) from error


def _shown(address: str) -> str:
    """Return the address without what may be a password."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _make_private(path: Path) -> None:
    with suppress(OSError):  # of which SQLite complains
        atomic.make_private(path)


def _prepare_to_read(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA query_only = ON").close()


def _prepare(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # so that BEGIN IMMEDIATE is ours to say
    make_durable(connection)
    connection.execute("PRAGMA foreign_keys = ON").close()
