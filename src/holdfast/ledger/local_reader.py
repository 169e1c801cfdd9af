"""Reads the file of a local ledger without writing: its calls, keys and times."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import InputError
from holdfast.ledger import record
from holdfast.ledger.interface import Domain, LedgerRefusedError, Reason, Receipt
from holdfast.pdp import PublicKey
from holdfast.pdp.field import SCALAR_BYTES

CHAIN = 0  # no chain has this id: a signature for a local ledger is good for nothing else
HISTORY = "SELECT block, events FROM calls WHERE block >= ? ORDER BY block"


def history(path: Path, since: int) -> list[Receipt]:
    """Return the calls of a ledger file from that one on; the file is only read."""
    with _reading(path) as file:
        return [decode_receipt(*row) for row in file.execute(HISTORY, (since,))]


def registered_key(path: Path, holding: int) -> PublicKey:
    """Return the key under which a ledger file knows a holding; the file is only read."""
    with _reading(path) as file:
        return read_registered(file, holding)[1]


@dataclass(frozen=True)
class LastCall:
    """The last call in a ledger file, and the file's sectors per block."""

    sectors: int
    block: int
    time: int


def last_call(path: Path) -> LastCall:
    """Return the last call in a ledger file; the file is only read."""
    with _reading(path) as file:
        (sectors,) = file.execute("SELECT sectors FROM ledger").fetchone()
        last = file.execute("SELECT block, time FROM calls ORDER BY block DESC LIMIT 1").fetchone()
        return LastCall(sectors, *(last or (0, 0)))


def domain_of(path: Path) -> Domain:
    """Return which ledger a file is; the file is only read."""
    with _reading(path) as file:
        (contract,) = file.execute("SELECT contract FROM ledger").fetchone()
        return Domain(CHAIN, contract)


def time_of(path: Path, block: int) -> int:
    """Return when a call of a ledger file was made; the file is only read."""
    with _reading(path) as file:
        row = file.execute("SELECT time FROM calls WHERE block = ?", (block,)).fetchone()
    if row is None:
        raise InputError(f"{path} has no call {block}")
    return int(row[0])


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise InputError(f"there is no ledger at {path}")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            yield file
    except sqlite3.Error as error:
        raise InputError(f"{path} can't be read as a ledger: {error}") from error


def read_registered(file: sqlite3.Connection, holding: int) -> tuple[bytes, PublicKey]:
    query = "SELECT node, key FROM holdings WHERE id = ?"
    row = file.execute(query, (encode_id(holding),)).fetchone()
    if row is None:
        raise LedgerRefusedError(Reason.UNKNOWN)
    node, key = row
    points = (key[at : at + SCALAR_BYTES] for at in range(0, len(key), SCALAR_BYTES))
    return node, PublicKey(tuple(points))


def encode_id(holding: int) -> bytes:
    return holding.to_bytes(24, "big")


def decode_receipt(block: int, events: str) -> Receipt:
    return Receipt(block.to_bytes(32, "big"), block, 0, record.decode(events))
