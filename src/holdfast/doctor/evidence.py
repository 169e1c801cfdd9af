"""The evidence: its last head is signed by our key, fits the tree, and covers what is anchored.

This is a quick look; `holdfast evidence verify` checks every leaf.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Engine, select

from holdfast.control.database import transaction
from holdfast.control.log import VERIFIER, read_verifier
from holdfast.control.origin import current_signer
from holdfast.control.schema import checkpoints, trees
from holdfast.doctor.finding import Check, fault, ok
from holdfast.errors import MalformedError
from holdfast.evidence.checkpoint import Checkpoint, open_checkpoint
from holdfast.evidence.tree import Frontier
from holdfast.ledger.interface import Anchored, Receipt
from holdfast.owner.keyring import Keyring

PART = "evidence"
VERIFY = "`holdfast evidence verify --key KEY` names what is wrong; `holdfast restore` brings back"

History = Callable[[Checkpoint], list[Receipt]]  # of the ledger, since an anchor


def look(
    folder: Path, engine: Engine, keyring: Keyring | None, history: History, owner: bytes | None
) -> Iterator[Check]:
    with transaction(engine) as connection:
        rows = select(checkpoints.c.note).order_by(checkpoints.c.id.desc())
        note = connection.execute(rows.limit(1)).scalar()
        anchored = connection.execute(rows.where(checkpoints.c.anchored).limit(1)).scalar()
        tree = connection.execute(select(trees.c.frontier)).scalar()
    if note is None or tree is None:
        yield ok(PART, "nothing is recorded yet")
        return
    verifier = read_verifier(folder)
    if keyring is not None and current_signer(keyring, engine).verifier != verifier:
        found = f"{folder / VERIFIER} is not the key by which the log is signed"
        yield fault(PART, found, "`holdfast serve` writes it anew when it starts")
        return
    try:
        head = open_checkpoint(bytes(note), verifier, "the last head")
    except MalformedError as error:
        yield fault(PART, str(error), f"{VERIFY} an older log")
        return
    frontier = Frontier.decode(bytes(tree))
    if (head.size, head.root) != (frontier.size, frontier.root):
        found = f"the last head says {head.size} leaves, and the tree of {frontier.size} differs"
        yield fault(PART, found, f"{VERIFY} an older log")
        return
    if anchored is not None and owner is not None:
        known = open_checkpoint(bytes(anchored), verifier, "the last anchored head")
        sizes = [
            event.size
            for receipt in history(known)
            for event in receipt.events
            if isinstance(event, Anchored) and event.owner == owner
        ]
        if max(sizes, default=0) > head.size:
            found = f"the ledger has an anchor of {max(sizes)} leaves, and the log only {head.size}"
            cure = "stop `holdfast serve`, and restore the newest backup without --moved"
            yield fault(PART, found, cure)
            return
    yield ok(PART, f"{head.size} leaves, the last head signed by {verifier.name}")
