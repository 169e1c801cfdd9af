"""Opens SQLite files so that commits are durable and readers don't wait for the writer."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from holdfast import atomic

LOCK_TIMEOUT_SECONDS = 60  # to wait for another writer
NOTICE_SECONDS = 2  # after which a command says that it waits
CACHE_KIB = 65_536  # at most; SQLite's own 2,000 are too few for 10,000 holdings
RETRY_DELAY_SECONDS = 0.005


def open_file(path: Path) -> sqlite3.Connection:
    """Open a file, which is made if it is missing; only its owner may read a new one."""
    if str(path) != ":memory:":
        make_private(path)
    file = sqlite3.connect(path, isolation_level=None, timeout=LOCK_TIMEOUT_SECONDS)
    make_durable(file)
    return file


def make_private(path: Path) -> None:
    """Make a file that only its owner may read; leave an error to SQLite, which reports it."""
    with suppress(OSError):
        atomic.make_private(path)


def is_busy(error: BaseException | None) -> bool:
    """Return whether SQLite refused because another connection has the lock, in any form."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def set_lock_timeout(file: sqlite3.Connection, seconds: int) -> None:
    file.execute(f"PRAGMA busy_timeout = {1000 * seconds}").close()


def make_durable(file: sqlite3.Connection) -> None:
    """Set the write-ahead log, have every commit reach the disk, and keep pages in memory.

    Several processes may do this at once when the file is new. SQLite then refuses without waiting,
    whatever the connection's timeout, so we wait ourselves.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            file.execute("PRAGMA journal_mode = WAL").close()
            break
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_DELAY_SECONDS)
    file.execute("PRAGMA synchronous = FULL").close()
    file.execute(f"PRAGMA cache_size = -{CACHE_KIB}").close()
