"""Tables in SQLite and in PostgreSQL: the same statements, and the same guarantees."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from holdfast import atomic
from holdfast.bench.postgres import Server
from holdfast.errors import InputError, StorageError
from holdfast.ledger.journal import Attempt, Intent, Journal
from holdfast.ledger.local import LocalLedger
from holdfast.storage.database import connect, migrate
from holdfast.tables import Place, PostgresSchema, Tables, open_file, open_tables

SCRIPT = "CREATE TABLE IF NOT EXISTS things (name TEXT PRIMARY KEY, body BLOB, number INTEGER);"
WRITERS, EACH = 4, 8


@pytest.fixture(params=["sqlite", "postgres"])
def spot(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return where there are no tables yet, once of each kind."""
    if request.param == "sqlite":
        return tmp_path / "tables.db"
    room: PostgresSchema = next(request.getfixturevalue("rooms"))
    return room


@pytest.fixture
def two(spot: Place) -> Iterator[tuple[Tables, Tables]]:
    """Yield two connections to the same tables."""
    with ExitStack() as stack:
        pair = [open_tables(spot, SCRIPT, "the things") for _ in range(2)]
        for each in pair:
            stack.callback(each.close)
        yield pair[0], pair[1]


def names(tables: Tables) -> list[str]:
    return [name for (name,) in tables.execute("SELECT name FROM things ORDER BY name")]


def put_both(tables: Tables, *both: str) -> None:
    with tables.transaction():
        for name in both:
            tables.execute("INSERT INTO things VALUES (?, NULL, 1)", (name,))


def open_things(path: Path) -> None:
    open_tables(path, SCRIPT, "the things").close()


def open_ledger(path: Path) -> None:
    LocalLedger(path, bytes(20), time.time, sectors=1).close()


def open_control(path: Path) -> None:
    engine = connect(str(path))
    migrate(engine)
    engine.dispose()


@pytest.mark.parametrize("open_one", [open_things, open_ledger, open_control])
def test_a_new_file_is_opened_while_another_writes_the_first_bytes_of_it(
    open_one: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "new.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
        ThreadPoolExecutor() as pool,
    ):
        other.execute("BEGIN IMMEDIATE")
        opening = pool.submit(open_one, path)
        with pytest.raises(TimeoutError):
            opening.result(timeout=0.2)
        other.execute("COMMIT")
        opening.result(timeout=30)


def test_values_come_back_as_they_were_and_texts_are_ordered_byte_by_byte(
    two: tuple[Tables, Tables],
) -> None:
    one, other = two
    rows = [("B", b"\0\xff", 2**62), ("a", None, True), ("é", b"", -1)]
    for row in rows:
        one.execute("INSERT INTO things VALUES (?, ?, ?)", row)
    assert list(other.execute("SELECT * FROM things ORDER BY name")) == rows


def test_a_transaction_that_fails_leaves_nothing(two: tuple[Tables, Tables]) -> None:
    one, other = two
    with pytest.raises(StorageError, match=r"the things in [^ ]+ can't be used"):
        put_both(one, "a", "a")
    assert names(other) == []
    put_both(one, "a", "b")
    assert names(other) == ["a", "b"]


def test_a_name_is_locked_for_one_until_it_lets_go_or_ends(two: tuple[Tables, Tables]) -> None:
    one, other = two
    with one.locked("attic", wait=True):
        with pytest.raises(BlockingIOError), other.locked("attic", wait=False):
            pass
        with other.locked("cellar", wait=False):
            pass
    with other.locked("attic", wait=False):
        pass


def test_writers_that_share_a_journal_never_share_a_nonce(spot: Place) -> None:
    def sign(intent: Intent) -> Attempt:
        return Attempt(intent.data.ljust(32, b"\0"), 1, 1, b"")

    def send(writer: int) -> list[int]:
        with closing(Journal(spot, 1, b"sender")) as journal:
            calls = [bytes([writer, call]) for call in range(EACH)]
            return [journal.intend(b"", call, 1, 5, sign)[0].nonce for call in calls]

    with ThreadPoolExecutor(WRITERS) as pool:
        nonces = [nonce for sent in pool.map(send, range(WRITERS)) for nonce in sent]
    assert sorted(nonces) == list(range(5, 5 + WRITERS * EACH))


def cut(room: PostgresSchema) -> None:
    """End every other connection to the database, as a fall of the server would."""
    with closing(psycopg.connect(room.address, autocommit=True)) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_lost_connection_is_told_once_and_made_again(rooms: Iterator[PostgresSchema]) -> None:
    room = next(rooms)
    with closing(open_tables(room, SCRIPT, "the things")) as tables:
        cut(room)
        with pytest.raises(StorageError):
            names(tables)
        assert names(tables) == []


def test_whoever_lost_a_lock_writes_nothing_more(rooms: Iterator[PostgresSchema]) -> None:
    room = next(rooms)
    with closing(open_tables(room, SCRIPT, "the things")) as tables:
        with tables.locked("attic", wait=True):
            cut(room)
            for _ in range(2):
                with pytest.raises(StorageError), tables.transaction():
                    tables.execute("INSERT INTO things VALUES ('a', NULL, 1)")
        assert names(tables) == []


def test_a_commit_is_durable_even_where_the_servers_default_is_not(postgres: Server) -> None:
    room = PostgresSchema(postgres.make("careless"), "careless")
    with closing(psycopg.connect(room.address, autocommit=True)) as connection:
        connection.execute("ALTER DATABASE careless SET synchronous_commit = off")
    with closing(open_tables(room, SCRIPT, "the things")) as tables:
        assert tables.execute("SHOW synchronous_commit").fetchone() == ("on",)
    postgres.drop("careless")


def test_no_message_has_the_password() -> None:
    for address in (
        "postgresql://me:hush%zz@host/name",
        "postgresql://me:hush@/name?host=/nowhere",
    ):
        room = PostgresSchema(address, "room")
        with pytest.raises((InputError, StorageError)) as caught:
            open_tables(room, SCRIPT, "the things")
        assert "hush" not in f"{caught.value} {caught.value.__cause__} {room}"


def test_a_new_file_is_its_owners_alone_with_all_that_sqlite_makes_beside_it(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        tables = open_tables(tmp_path / "file.db", "CREATE TABLE one (a INTEGER)", "tables")
        with closing(tables), tables.locked("name", wait=False):
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    names = ("file.db", "file.db-wal", "file.db-shm", "name.lock")
    assert modes == dict.fromkeys(names, 0o600)


def test_making_a_file_private_again_drops_no_lock_on_it(tmp_path: Path) -> None:
    """Before: every new connection opened and closed the file, which ended SQLite's own locks."""
    path = tmp_path / "locked.db"
    with closing(open_file(path)) as file:
        file.execute("CREATE TABLE numbers (number INTEGER)")
        file.execute("BEGIN IMMEDIATE")
        atomic.make_private(path)
        begin = "sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        command = [sys.executable, "-c", f"import sqlite3, sys; {begin}", str(path)]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "database is locked" in refused.stderr
