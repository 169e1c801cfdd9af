"""The home's database in SQLite and in PostgreSQL: the same guarantees, and the same schema."""

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
from sqlalchemy import Engine, insert, select, text
from sqlalchemy.exc import IntegrityError
from tests.support.database import run_sql

from holdfast import atomic
from holdfast.bench.postgres import Server
from holdfast.errors import InputError, StorageError
from holdfast.ledger.journal import Attempt, Intent, Journal
from holdfast.ledger.local import LocalLedger
from holdfast.owner.catalogue import Catalogue, HoldingRecord
from holdfast.storage.database import connect, create_tables, migrate, reading, transaction
from holdfast.storage.home_schema import registrations
from holdfast.storage.locks import locked
from holdfast.storage.schema import tokens
from holdfast.storage.sqlite import open_file

WRITERS, CALLS = 4, 8


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a database that is empty, once of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "holdfast.db")
    addresses: Iterator[str] = request.getfixturevalue("addresses")
    return next(addresses)


@pytest.fixture
def two(address: str) -> Iterator[tuple[Engine, Engine]]:
    """Yield two engines on the same database."""
    with ExitStack() as stack:
        engines = [connect(address) for _ in range(2)]
        for engine in engines:
            stack.callback(engine.dispose)
            create_tables(engine)
        yield engines[0], engines[1]


def holding(name: str) -> HoldingRecord:
    return HoldingRecord(name, "http://node", b"\0\xff", None, b"", 2, encrypted=True, number=2**62)


def registration(name: str) -> dict[str, object]:
    return {"holding": name, "hash": b"h", "block": 1, "gas": 1}


def names(engine: Engine) -> list[str]:
    with closing(Catalogue(engine)) as catalogue:
        return [record.name for record in catalogue.holdings()]


def open_catalogue(path: Path) -> None:
    Catalogue.open(str(path)).close()


def open_journal(path: Path) -> None:
    Journal.in_file(path, 1, b"").close()


def open_ledger(path: Path) -> None:
    LocalLedger(path, bytes(20), time.time, sectors=1).close()


@pytest.mark.parametrize("open_one", [open_catalogue, open_journal, open_ledger])
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


@pytest.mark.slow
def test_several_processes_create_the_tables_at_once(address: str) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        for catalogue in pool.map(Catalogue.open, [address] * WRITERS):
            assert catalogue.holdings() == []
            catalogue.close()


def test_names_are_ordered_byte_by_byte(two: tuple[Engine, Engine]) -> None:
    one, other = (Catalogue(engine) for engine in two)
    for name in ("é", "a", "B"):
        one.add_holding(holding(name))
    assert other.holdings() == [holding(name) for name in ("B", "a", "é")]


def test_a_transaction_that_fails_leaves_nothing(two: tuple[Engine, Engine]) -> None:
    one, other = two
    row = registration("attic")
    Catalogue(one).add_holding(holding("attic"))
    with pytest.raises(IntegrityError), transaction(one) as connection:
        connection.execute(insert(registrations), [row, row])
    assert Catalogue(other).registration("attic") is None


def test_the_rows_of_a_holding_need_the_holding(two: tuple[Engine, Engine]) -> None:
    with pytest.raises(IntegrityError), transaction(two[0]) as connection:
        connection.execute(insert(registrations), [registration("nowhere")])


def test_a_reader_does_not_wait_for_a_writer(two: tuple[Engine, Engine]) -> None:
    one, other = two
    row = {"name": "n", "role": "viewer", "digest": b"d"}
    with transaction(one) as writer:
        writer.execute(insert(tokens), [row])
        with transaction(reading(other)) as reader:
            assert reader.execute(select(tokens)).first() is None


@pytest.mark.slow
def test_a_name_is_locked_by_one_process_until_it_releases_it(two: tuple[Engine, Engine]) -> None:
    one, other = two
    with locked(one, "attic", wait=True):
        with pytest.raises(BlockingIOError), locked(other, "attic", wait=False):
            pass
        with locked(other, "cellar", wait=False):
            pass
    with locked(other, "attic", wait=False):
        pass


def test_senders_that_share_a_journal_never_share_a_nonce(address: str) -> None:
    def sign(intent: Intent) -> Attempt:
        return Attempt(intent.data.ljust(32, b"\0"), 1, 1, b"")

    def send(writer: int) -> list[int]:
        with closing(Journal.in_database(address, 1, b"sender")) as journal:
            calls = [bytes([writer, call]) for call in range(CALLS)]
            return [journal.intend(b"", call, 1, 5, sign)[0].nonce for call in calls]

    with ThreadPoolExecutor(WRITERS) as pool:
        nonces = [nonce for sent in pool.map(send, range(WRITERS)) for nonce in sent]
    assert sorted(nonces) == list(range(5, 5 + WRITERS * CALLS))


def test_owners_in_one_database_share_the_nonces_and_nothing_else(
    addresses: Iterator[str],
) -> None:
    def sign(intent: Intent) -> Attempt:
        return Attempt(bytes([intent.nonce]) * 32, 1, 1, b"")

    nonces = []
    for owner in (next(addresses), next(addresses)):
        with closing(Catalogue.open(owner)) as catalogue:
            assert catalogue.holdings() == []
            catalogue.add_holding(holding("attic"))
        with closing(Journal.in_database(owner, 7, b"payer")) as journal:
            nonces.append(journal.intend(b"", b"", 1, 0, sign)[0].nonce)
    assert nonces == [0, 1]


def cut(address: str) -> None:
    """End every other connection to the database, as a crash of the server would."""
    run_sql(
        address,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def test_a_lost_connection_is_reported_once_and_made_again(addresses: Iterator[str]) -> None:
    address = next(addresses)
    with closing(Catalogue.open(address)) as catalogue:
        catalogue.holdings()
        cut(address)
        with pytest.raises(StorageError):
            catalogue.holdings()
        assert catalogue.holdings() == []


def test_a_host_that_lost_its_lock_writes_nothing_more(addresses: Iterator[str]) -> None:
    address = next(addresses)
    with closing(Catalogue.open(address)) as catalogue:
        with catalogue.locked("attic", wait=True):
            cut(address)
            for _ in range(2):
                with pytest.raises(StorageError):
                    catalogue.add_holding(holding("attic"))
        assert catalogue.holdings() == []


def test_what_is_written_under_a_lock_is_there_for_others(two: tuple[Engine, Engine]) -> None:
    one, other = two
    catalogue = Catalogue(one)
    with catalogue.locked("attic", wait=True):
        catalogue.add_holding(holding("attic"))
        assert catalogue.holding("attic") == holding("attic")
        assert names(other) == ["attic"]


def test_a_commit_is_durable_even_if_the_servers_default_is_not(postgres: Server) -> None:
    address = postgres.make("careless")
    with closing(psycopg.connect(address, autocommit=True)) as connection:
        connection.execute("ALTER DATABASE careless SET synchronous_commit = off")
    assert run_sql(address, "SHOW synchronous_commit") == [("on",)]
    postgres.drop("careless")


def test_no_message_has_the_password() -> None:
    for address in (
        "postgresql://me:hush%zz@host:port/name",
        "postgresql://me:hush@/name?host=/nowhere",
        "postgresql://me:hush@/name?schema=hush;hush",
    ):
        with pytest.raises((InputError, StorageError)) as caught:
            Catalogue.open(address)
        assert "hush" not in f"{caught.value} {caught.value.__cause__}"


def test_a_database_of_another_version_is_refused(address: str) -> None:
    engine = connect(address)
    migrate(engine)
    with transaction(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InputError, match="newer Holdfast \\(schema 9999\\)"):
        create_tables(engine)
    engine.dispose()


def test_a_new_file_is_its_owners_alone_with_all_that_sqlite_makes_beside_it(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        catalogue = Catalogue.open(str(tmp_path / "file.db"))
        with closing(catalogue), catalogue.locked("name", wait=False):
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("file.db", "file.db-wal", "file.db-shm", "name.lock"), 0o600)


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


@pytest.mark.slow
def test_a_current_database_is_opened_without_alembic(tmp_path: Path) -> None:
    path = str(tmp_path / "holdfast.db")
    Catalogue.open(path).close()
    code = (
        "import sys; from holdfast.owner.catalogue import Catalogue; "
        "Catalogue.open(sys.argv[1]).close(); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 0
