"""Checks the evidence: its last head is signed by our key, fits the tree, and covers all anchors.

This is a quick check; `holdfast evidence verify` checks every leaf.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Engine

from holdfast.control.evidence.reader import VERIFIER, read_verifier
from holdfast.control.evidence.signer import current_signer
from holdfast.control.queries.leaves import read_log_state
from holdfast.doctor.finding import Check, fault, ok
from holdfast.errors import MalformedError
from holdfast.evidence.checkpoint import open_checkpoint
from holdfast.evidence.note import Verifier
from holdfast.evidence.tree import Frontier
from holdfast.ledger.interface import Anchored, Receipt
from holdfast.owner.keyring import Keyring
from holdfast.storage.database import transaction

PART = "evidence"
VERIFY = "`holdfast evidence verify --key KEY` names what is wrong; `holdfast restore` brings back"

History = Callable[[int], list[Receipt]]  # of the ledger, from a block on


def check(
    folder: Path, engine: Engine, keyring: Keyring | None, history: History, owner: bytes | None
) -> Iterator[Check]:
    with transaction(engine) as connection:
        log = read_log_state(connection)
    if log.note is None or log.frontier is None:
        yield ok(PART, "nothing is recorded yet")
        return
    verifier = read_verifier(folder)
    if keyring is not None and current_signer(keyring, engine).verifier != verifier:
        message = f"{folder / VERIFIER} is not the key by which the log is signed"
        yield fault(PART, message, "`holdfast serve` writes it again when it starts")
        return
    try:
        head = open_checkpoint(log.note, verifier, "the last head")
    except MalformedError as error:
        yield fault(PART, str(error), f"{VERIFY} an older log")
        return
    frontier = Frontier.decode(log.frontier)
    if (head.size, head.root) != (frontier.size, frontier.root):
        message = f"the last head says {head.size} leaves, and the tree of {frontier.size} differs"
        yield fault(PART, message, f"{VERIFY} an older log")
        return
    # A restored log has no anchor of its own at first, and the ledger may have the old log's.
    if owner is not None and (log.anchored_note is not None or not log.restored):
        sizes = [
            event.size
            for receipt in history(_last_block(log.anchored_note, verifier))
            for event in receipt.events
            if isinstance(event, Anchored) and event.owner == owner
        ]
        if max(sizes, default=0) > head.size:
            message = (
                f"the ledger has an anchor of {max(sizes)} leaves, and the log only {head.size}"
            )
            cure = "stop `holdfast serve`, and restore the newest backup without --moved"
            yield fault(PART, message, cure)
            return
    yield ok(PART, f"{head.size} leaves, the last head signed by {verifier.name}")


def _last_block(note: bytes | None, verifier: Verifier) -> int:
    """Return the block of an anchored head; 0 if there is none."""
    if note is None:
        return 0
    anchor = open_checkpoint(note, verifier, "the last anchored head").anchor
    return 0 if anchor is None else anchor.block
