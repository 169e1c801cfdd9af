"""Reads the evidence from the home's database, for export, verification and explanations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, func, select

from holdfast import atomic
from holdfast.control.settings.models import read_control
from holdfast.errors import MalformedError, NotFoundError
from holdfast.evidence.bundle import Bundle
from holdfast.evidence.leaf import Audit, CheckResponse, Registration, StorageCheck, decode
from holdfast.evidence.log import Entry, Log
from holdfast.evidence.note import Verifier
from holdfast.evidence.tree import SUBTREE, inclusion_path, leaf_hash, span_root
from holdfast.owner.home import check_home
from holdfast.pdp import PublicKey
from holdfast.pdp.field import SCALAR_BYTES
from holdfast.storage.database import open_database, transaction
from holdfast.storage.schema import checkpoints, leaves, public_keys, subtrees

PAGE = 1000
MAX_VERIFIER_BYTES = 1000
VERIFIER = "evidence.pub"  # the file in the home with the verifier key, which is not secret


def read_verifier(home: Path) -> Verifier:
    """Return the key that the home's log is signed by."""
    path = home / VERIFIER
    if not path.exists():
        raise NotFoundError(f"there is no {path} yet: `holdfast serve` writes it")
    try:
        return Verifier.decode(atomic.read(path, at_most=MAX_VERIFIER_BYTES).decode().strip())
    except UnicodeDecodeError as error:
        raise MalformedError(f"{path} is not a verifier key") from error


@contextmanager
def open_log(path: Path) -> Iterator[Log]:
    """Open a log wherever it is: in a bundle, or in the database of a home."""
    if not path.is_dir():
        yield Bundle.open(path)
        return
    check_home(path)
    with open_database(read_control(path).address(path), read_only=True) as engine:
        yield DatabaseLog(engine, read_verifier(path))


def inclusion(connection: Connection, place: int, size: int) -> list[bytes]:
    """Return the proof that the leaf at a place is in the tree of that size.

    It hashes the leaves of two subtrees of 256 at most; the roots of the others are at hand.
    """
    kept = select(subtrees.c.root).where(subtrees.c.id < size // SUBTREE).order_by(subtrees.c.id)
    hashes: dict[int, bytes] = {}
    for first in {place - place % SUBTREE, size - size % SUBTREE}:
        last = min(first + SUBTREE, size)
        some = (leaves.c.place >= first) & (leaves.c.place < last)
        for row in connection.execute(select(leaves.c.place, leaves.c.body).where(some)):
            hashes[row.place] = leaf_hash(row.body)
    roots = [bytes(root) for root in connection.execute(kept).scalars()]
    return [span_root(start, stop, hashes, roots) for start, stop in inclusion_path(place, size)]


class DatabaseLog:
    """The log up to its last checkpoint when it was opened; it may grow meanwhile."""

    def __init__(self, engine: Engine, verifier: Verifier) -> None:
        self._engine, self.verifier = engine, verifier
        with transaction(engine) as connection:
            self.size = connection.execute(select(func.max(checkpoints.c.size))).scalar() or 0

    def public_keys(self) -> Iterator[PublicKey]:
        named = self._named()
        query = select(public_keys.c.id, public_keys.c.points).order_by(public_keys.c.id)
        with transaction(self._engine) as connection:
            rows = connection.execute(query).all()
        for id_, points in rows:
            if named is None or bytes(id_) in named:
                starts = range(0, len(points), SCALAR_BYTES)
                yield PublicKey(tuple(points[at : at + SCALAR_BYTES] for at in starts))

    def _named(self) -> set[bytes] | None:
        """Return the keys that leaves name, not those of holdings without a leaf in the tree.

        None where a leaf can't be read: then every key may be needed to say what is wrong.
        """
        ours = (leaves.c.place < self.size) & leaves.c.holding.is_not(None)
        firsts = select(func.min(leaves.c.place)).where(ours).group_by(leaves.c.holding)
        first = select(leaves.c.holding, leaves.c.body).where(leaves.c.place.in_(firsts))
        named = set()
        try:
            with transaction(self._engine) as connection:
                for holding, body in connection.execute(first).all():
                    record = decode(bytes(body))
                    if isinstance(record, StorageCheck | CheckResponse):  # it has no key
                        continue
                    if not isinstance(record, Audit | Registration):
                        every = select(leaves.c.body).where(ours, leaves.c.holding == holding)
                        records = map(decode, map(bytes, connection.execute(every).scalars()))
                        record = next((r for r in records if isinstance(r, Audit)), record)
                    if isinstance(record, Audit | Registration):
                        named.add(record.holding.key)
        except MalformedError:
            return None
        return named

    def checkpoints(self) -> Iterator[bytes]:
        query = (
            select(checkpoints.c.note)
            .where(checkpoints.c.size <= self.size)
            .order_by(checkpoints.c.size, checkpoints.c.anchored)
        )
        with transaction(self._engine) as connection:
            rows = connection.execute(query).scalars().all()
        yield from rows

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        end = self.size if stop is None else min(stop, self.size)
        for first in range(start, end, PAGE):
            page = (leaves.c.place >= first) & (leaves.c.place < min(first + PAGE, end))
            query = select(leaves.c.body, leaves.c.proof).where(page).order_by(leaves.c.place)
            with transaction(self._engine) as connection:
                rows = connection.execute(query).all()
            for body, proof in rows:
                yield Entry(bytes(body), None if proof is None else bytes(proof))
