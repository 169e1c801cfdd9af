"""The embedded ledger: the contract's state machine in SQLite. Durable, but not a chain.

Anyone who can write the file can rewrite its history, so it convinces only its owner. Every call
is one transaction of the database, and times come from the clock that is passed in.
"""

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import InputError, MalformedError, StorageError
from holdfast.ledger import check, record
from holdfast.ledger.interface import (
    SERIAL_BYTES,
    Anchored,
    Answer,
    Batch,
    Domain,
    Entry,
    Event,
    Failed,
    LedgerRefusedError,
    Opened,
    OpenedMany,
    Part,
    Passed,
    Reason,
    Receipt,
    Registered,
    TimedOut,
    ascending,
    challenge_name,
    check_owner,
    check_whole,
    check_words,
    holding_id,
    max_answers,
    serial_of,
)
from holdfast.ledger.local_reader import (
    CHAIN,
    HISTORY,
    decode_receipt,
    encode_id,
    read_registered,
)
from holdfast.ledger.signing import signer
from holdfast.pdp import Challenge, Proof, PublicKey
from holdfast.storage.sqlite import open_file

_SCHEMA = """
CREATE TABLE ledger (contract BLOB NOT NULL, sectors INTEGER NOT NULL);
CREATE TABLE holdings (
  id BLOB PRIMARY KEY, node BLOB NOT NULL, key BLOB NOT NULL, serial BLOB NOT NULL
);
CREATE TABLE challenges (
  holding BLOB NOT NULL, id BLOB NOT NULL, target BLOB NOT NULL, deadline INTEGER NOT NULL,
  PRIMARY KEY (holding, id)
);
CREATE TABLE batches (head BLOB PRIMARY KEY, root BLOB NOT NULL);
CREATE TABLE settled (head BLOB NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (head, place));
CREATE TABLE calls (block INTEGER PRIMARY KEY, time INTEGER NOT NULL, events TEXT NOT NULL);
"""
# How a transaction begins, is committed and undone: alone, or as a call among others.
_ALONE = ("BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",))
_CALL = ("SAVEPOINT call", "RELEASE call", ("ROLLBACK TO call", "RELEASE call"))


@dataclass
class _Call:
    now: int
    events: list[Event] = field(default_factory=list)
    block: int = 0

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.block.to_bytes(32, "big"), self.block, 0, tuple(self.events))


class LocalLedger:
    """One sender's view of a ledger file; others may work on the same file."""

    def __init__(
        self,
        path: Path,
        sender: bytes,
        clock: Callable[[], float],
        *,
        sectors: int,
    ) -> None:
        self.sender, self.sectors, self._clock = sender, sectors, clock
        self._grouped = False  # whether a transaction is open that calls belong to
        try:
            self._db = open_file(path)
            with self._transaction():
                if not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    for statement in _SCHEMA.split(";"):
                        self._db.execute(statement)
                    row = (secrets.token_bytes(20), sectors)
                    self._db.execute("INSERT INTO ledger VALUES (?, ?)", row)
            contract, actual = self._db.execute("SELECT * FROM ledger").fetchone()
        except sqlite3.Error as error:
            raise StorageError(f"{path} can't be used as a ledger: {error}") from error
        if actual != sectors:
            raise InputError(f"{path} is a ledger for {actual} sectors a block, not for {sectors}")
        self.domain = Domain(CHAIN, contract)

    def close(self) -> None:
        self._db.close()

    @property
    def quiet_seconds(self) -> float:
        return 0.0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Commit the calls inside in one step: waiting for the disk takes longer than a call."""
        with _usable(), self._transaction():
            self._grouped = True
            try:
                yield
            finally:
                self._grouped = False

    def gas_price(self) -> int:
        return 0

    def register(self, public: PublicKey, node: bytes) -> Receipt:
        with self._call() as call:
            _require(len(public.abscissas) == self.sectors and any(node), Reason.MALFORMED)
            try:
                _ = public.points
            except MalformedError as error:
                raise LedgerRefusedError(Reason.MALFORMED) from error
            first, last = (encode_id(holding_id(self.sender, n)) for n in (0, 2**32 - 1))
            (number,) = self._db.execute(
                "SELECT count(*) FROM holdings WHERE id BETWEEN ? AND ?", (first, last)
            ).fetchone()
            holding = holding_id(self.sender, number)
            row = (encode_id(holding), node, b"".join(public.abscissas), bytes(SERIAL_BYTES))
            self._db.execute("INSERT INTO holdings VALUES (?, ?, ?, ?)", row)
            call.events.append(Registered(holding, node))
        return call.receipt

    def key(self, holding: int) -> PublicKey:
        with _usable():
            return self._holding(holding)[1]

    def newest_serial(self, number: int) -> int:
        with _usable():
            return self._serial(holding_id(self.sender, number))

    def open(self, number: int, challenge: Challenge, target: bytes, deadline: int) -> Receipt:
        with self._call() as call:
            check_whole(challenge)
            holding = holding_id(self.sender, number)
            self._holding(holding)
            _require(any(target), Reason.MALFORMED)
            _require(call.now <= deadline, Reason.LATE)
            name = challenge_name(holding, challenge, target, deadline)
            _require(self._state(holding, name) is None, Reason.OPEN)
            _require(serial_of(challenge.seed) > self._serial(holding), Reason.USED)
            serial = (challenge.seed[:SERIAL_BYTES], encode_id(holding))
            self._db.execute("UPDATE holdings SET serial = ? WHERE id = ?", serial)
            row = (encode_id(holding), name, target, deadline)
            self._db.execute("INSERT INTO challenges VALUES (?, ?, ?, ?)", row)
            call.events.append(
                Opened(
                    holding,
                    name,
                    challenge.seed,
                    challenge.inventory_hash,
                    challenge.blocks,
                    challenge.samples,
                    target,
                    deadline,
                )
            )
        return call.receipt

    def open_many(self, batch: Batch) -> Receipt:
        with self._call() as call:
            check_owner(batch, self.sender)
            _require(call.now <= batch.deadline, Reason.LATE)
            _require(ascending(batch.words), Reason.MALFORMED)
            opened = self._root(batch)
            _require(opened != batch.root, Reason.OPEN)
            _require(opened is None, Reason.USED)
            self._db.execute("INSERT INTO batches VALUES (?, ?)", (batch.head, batch.root))
            call.events.append(
                OpenedMany(batch.root, self.sender, batch.seed, batch.deadline, batch.words)
            )
        return call.receipt

    def submit(self, holding: int, challenge: bytes, answer: Answer) -> Receipt:
        with self._call() as call:
            check_words(answer.proof, self.sectors)
            target, deadline = self._open(holding, challenge)
            _require(call.now <= deadline, Reason.LATE)
            self._forget(holding, challenge)
            call.events.append(self._judge(holding, challenge, target, answer))
        return call.receipt

    def settle(self, batch: Batch, answers: Mapping[int, Answer]) -> Receipt:
        with self._call() as call:
            part = batch.part(list(answers), max_answers(self.sectors))
            for answer in answers.values():
                check_words(answer.proof, self.sectors)
            self._find(batch, part)
            _require(call.now <= batch.deadline, Reason.LATE)
            for index in self._unsettled(batch, answers):
                answer = answers[index]
                target = Entry.decode(batch.words[index]).target
                holding, name = batch.holding(index), batch.challenge_id(index)
                call.events.append(self._judge(holding, name, target, answer))
        return call.receipt

    def expire(self, holding: int, challenge: bytes) -> Receipt:
        with self._call() as call:
            _, deadline = self._open(holding, challenge)
            _require(call.now > deadline, Reason.EARLY)
            self._forget(holding, challenge)
            call.events.append(TimedOut(holding, challenge))
        return call.receipt

    def expire_many(self, batch: Batch, indices: Sequence[int]) -> Receipt:
        with self._call() as call:
            self._find(batch, batch.part(indices))
            _require(call.now > batch.deadline, Reason.EARLY)
            for index in self._unsettled(batch, indices):
                self._holding(batch.holding(index))
                call.events.append(TimedOut(batch.holding(index), batch.challenge_id(index)))
        return call.receipt

    def anchor(self, root: bytes, size: int) -> Receipt:
        with self._call() as call:
            call.events.append(Anchored(self.sender, root, size))
        return call.receipt

    def receipts(self, since: int = 0) -> list[Receipt]:
        with _usable():
            return [decode_receipt(*row) for row in self._db.execute(HISTORY, (since,))]

    def height(self) -> int:
        with _usable():
            (newest,) = self._db.execute("SELECT max(block) FROM calls").fetchone()
        return newest or 0

    def reorganisations(self) -> int:
        return 0

    def reconcile(self) -> list[Receipt]:
        return []

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        begin, commit, rollback = _CALL if self._grouped else _ALONE
        self._db.execute(begin)
        try:
            yield
        except BaseException:
            for statement in rollback:
                self._db.execute(statement)
            raise
        self._db.execute(commit)

    @contextmanager
    def _call(self) -> Iterator["_Call"]:
        """Yield the time and a list for the events, which are recorded if nothing is refused."""
        with _usable(), self._transaction():
            call = _Call(int(self._clock()))
            yield call
            row = (call.now, record.encode(call.events))
            insert = "INSERT INTO calls (time, events) VALUES (?, ?)"
            call.block = self._db.execute(insert, row).lastrowid or 0

    def _holding(self, holding: int) -> tuple[bytes, PublicKey]:
        return read_registered(self._db, holding)

    def _serial(self, holding: int) -> int:
        query = "SELECT serial FROM holdings WHERE id = ?"
        row = self._db.execute(query, (encode_id(holding),)).fetchone()
        return serial_of(row[0]) if row else 0

    def _state(self, holding: int, challenge: bytes) -> tuple[bytes, int] | None:
        query = "SELECT target, deadline FROM challenges WHERE holding = ? AND id = ?"
        row: tuple[bytes, int] | None = self._db.execute(
            query, (encode_id(holding), challenge)
        ).fetchone()
        return row

    def _open(self, holding: int, challenge: bytes) -> tuple[bytes, int]:
        state = self._state(holding, challenge)
        if state is None:
            raise LedgerRefusedError(Reason.UNKNOWN)
        return state

    def _root(self, batch: Batch) -> bytes | None:
        """Return the root of what was opened under the batch's owner, seed and deadline."""
        query = "SELECT root FROM batches WHERE head = ?"
        row = self._db.execute(query, (batch.head,)).fetchone()
        return row[0] if row else None

    def _forget(self, holding: int, challenge: bytes) -> None:
        where = (encode_id(holding), challenge)
        self._db.execute("DELETE FROM challenges WHERE holding = ? AND id = ?", where)

    def _find(self, batch: Batch, part: Part) -> None:
        _require(ascending(part.words), Reason.MALFORMED)
        _require(self._root(batch) == batch.root, Reason.UNKNOWN)

    def _unsettled(self, batch: Batch, indices: Iterable[int]) -> list[int]:
        """Mark challenges of a batch as settled; return those that were not. There must be some.

        As in the contract, the others are left out.
        """
        insert = "INSERT OR IGNORE INTO settled VALUES (?, ?)"
        some = [i for i in indices if self._db.execute(insert, (batch.head, i)).rowcount]
        _require(bool(some), Reason.UNKNOWN)
        return some

    def _judge(self, holding: int, challenge: bytes, target: bytes, answer: Answer) -> Event:
        node, public = self._holding(holding)
        passes = answer.passes
        if passes is None:
            passes = _passes(public, target, answer.proof)
        if passes:
            return Passed(holding, challenge)
        signed_by = signer(answer.signature, self.domain, holding, challenge, answer.proof)
        _require(signed_by == node, Reason.WRONG)
        return Failed(holding, challenge, check.digest(answer.proof))


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"the local ledger can't be used: {error}") from error


def _require(condition: bool, reason: Reason) -> None:
    if not condition:
        raise LedgerRefusedError(reason)


def _passes(public: PublicKey, target: bytes, proof: Proof) -> bool:
    try:
        return check.passes(public, target, proof)
    except MalformedError as error:
        raise LedgerRefusedError(Reason.MALFORMED) from error
