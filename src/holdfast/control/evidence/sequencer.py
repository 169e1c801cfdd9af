"""The sequencer: gives leaves their places in the tree, signs its heads and anchors its roots.

Leaves are saved in the audit's own transaction, so none is lost if a worker dies. Any worker may
call the sequencer: a lock on the tree's row lets one in at a time.
"""

from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Connection, Engine, insert, select, update
from sqlalchemy.exc import IntegrityError

from holdfast.control.evidence.leaves import assign_places
from holdfast.durations import MINUTE
from holdfast.errors import HoldfastError
from holdfast.evidence.checkpoint import Anchor, Checkpoint, open_checkpoint, with_anchor
from holdfast.evidence.note import Signer
from holdfast.evidence.tree import SUBTREE, Frontier, leaf_hash, subtree_root
from holdfast.ledger.interface import Anchored, Ledger, Receipt
from holdfast.storage.database import transaction
from holdfast.storage.schema import checkpoints, leaves, subtrees, trees

BATCH = 5000
ANCHORING = 15 * MINUTE  # a worker has it to itself; a transaction is given up after ten


class Sequencer:
    def __init__(self, engine: Engine, signer: Signer, clock: Callable[[], int]) -> None:
        self._engine, self._signer, self._clock = engine, signer, clock

    def sequence(self) -> int:
        """Put waiting leaves into the tree and sign its new head; return how many there were."""
        with transaction(self._engine) as connection:
            frontier = _tree(connection)
            waiting = select(leaves.c.id, leaves.c.body).where(leaves.c.place.is_(None))
            rows = connection.execute(waiting.order_by(leaves.c.id).limit(BATCH)).all()
            if not rows:
                return 0
            places, whole = [], []
            for id_, body in rows:
                places.append({"id": id_, "place": frontier.size})
                added = leaf_hash(body)
                if (root := subtree_root(frontier, added)) is not None:
                    whole.append({"id": frontier.size // SUBTREE, "root": root})
                frontier = frontier.append(added)
            assign_places(connection, places)
            if whole:
                connection.execute(insert(subtrees), whole)
            connection.execute(update(trees).values(size=frontier.size, frontier=frontier.encode()))
            head = Checkpoint(self._signer.name, frontier.size, frontier.root)
            self._publish(connection, head)
        return len(rows)

    def anchor(self, ledger: Ledger) -> Checkpoint | None:
        """Put the newest root on the ledger, unless it is there; return the head that says so.

        One worker does it at a time. One that died may have done it without being able to say so.
        """
        now = self._clock()
        with transaction(self._engine) as connection:
            _tree(connection)
            newest = select(checkpoints).order_by(
                checkpoints.c.size.desc(), checkpoints.c.id.desc()
            )
            row = connection.execute(newest.limit(1)).first()
            busy = connection.execute(select(trees.c.anchoring)).scalar_one()
            # One that lies too far ahead is from a clock that was set back since. Twice as far, for
            # whoever waited for the row, or whose clock is behind, reads it with an earlier time.
            if row is None or row.anchored or now < busy <= now + 2 * ANCHORING:
                return None
            connection.execute(update(trees).values(anchoring=now + ANCHORING))
        head = open_checkpoint(row.note, self._signer.verifier)
        try:
            receipt = self._arrived(ledger, head) if busy else None
            receipt = receipt or ledger.anchor(head.root, head.size)
        except HoldfastError:
            with transaction(self._engine) as connection:
                connection.execute(update(trees).values(anchoring=1))  # it may have arrived
            raise
        where = Anchor(ledger.domain, receipt.transaction, receipt.block)
        anchored = with_anchor(head, where)
        with transaction(self._engine) as connection:
            _tree(connection)
            same = (checkpoints.c.size == head.size) & checkpoints.c.anchored
            if not connection.execute(select(checkpoints.c.id).where(same)).first():
                self._publish(connection, anchored)
            connection.execute(update(trees).values(anchoring=0))
        return anchored

    def _arrived(self, ledger: Ledger, head: Checkpoint) -> Receipt | None:
        """Return where the ledger has this head, if it has."""
        last = select(checkpoints.c.note).where(checkpoints.c.anchored)
        with transaction(self._engine) as connection:
            newest = last.order_by(checkpoints.c.size.desc()).limit(1)
            note = connection.execute(newest).scalar()
        before = None if note is None else open_checkpoint(note, self._signer.verifier).anchor
        wanted = Anchored(ledger.sender, head.root, head.size)
        for receipt in ledger.receipts(before.block if before else 0):
            if wanted in receipt.events:
                return receipt
        return None

    def _publish(self, connection: Connection, head: Checkpoint) -> None:
        last = select(checkpoints.c.note).order_by(checkpoints.c.id.desc()).limit(1)
        head = head.following(connection.execute(last).scalar())
        row = {
            "size": head.size,
            "anchored": head.anchor is not None,
            "note": head.sign(self._signer),
            "signed": self._clock(),
        }
        connection.execute(insert(checkpoints), [row])


def _tree(connection: Connection) -> Frontier:
    """Return the tree, which nobody else changes until the transaction ends."""
    stored = connection.execute(select(trees.c.frontier).with_for_update()).first()
    if stored is not None:
        return Frontier.decode(stored.frontier)
    with suppress(IntegrityError), connection.begin_nested():  # another worker may be quicker
        row = {"id": 1, "size": 0, "frontier": Frontier().encode()}
        connection.execute(insert(trees), [row])
    return _tree(connection)
