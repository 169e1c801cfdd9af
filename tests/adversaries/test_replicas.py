"""Two nodes that keep one copy between them and answer for two, or a copy that lies elsewhere.

Tags differ from replica to replica, but plain data do not. So what keeps the nodes from sharing is
encryption under each replica's own key, and nothing else: without it the audits of both pass.
"""

import shutil
from pathlib import Path

import pytest
from tests.adversaries.stage import PATIENCE, SEGMENT, Stage, Turncoat, drop

from holdfast.evidence.leaf import Outcome
from holdfast.ledger.interface import Answer
from holdfast.node.holding import Holding as Kept
from holdfast.node.layout import Part
from holdfast.node.objects import open_objects
from holdfast.node.proof_messages import ProofQuestion
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.owner import Holding
from holdfast.pdp import Prover, StoredFile


class Borrower:
    """Keeps its own tags, which are small, and reads the data of another node."""

    def __init__(self, lender: Turncoat, lent: Holding) -> None:
        self.kept = lender.kept(lent)

    def __call__(self, node: Turncoat, holding: Kept, question: ProofQuestion) -> Answer:
        (mine,), (theirs,) = holding.record.files, self.kept.record.files
        data = self.kept.reader(theirs, Part.DATA)
        stored = {mine.file_id: StoredFile(data, holding.stored_file(mine).tags)}
        challenge = question.challenge
        proof = Prover(holding.record.inventory, stored).prove(challenge)
        return node.signed(question, proof)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("salts", "encrypted", "outcome"),
    [
        ((b"same", b"same"), False, Outcome.PASSED),
        ((b"one", b"two"), False, Outcome.PASSED),
        ((b"one", b"two"), True, Outcome.FAILED),
    ],
    ids=["one key, plain", "two keys, plain", "two keys, encrypted"],
)
def test_one_copy_serves_two_replicas_only_if_they_are_alike(
    stage: Stage, salts: tuple[bytes, bytes], encrypted: bool, outcome: Outcome
) -> None:
    content = stage.content(60)
    (lender, lender_url), (borrower, borrower_url) = stage.node(), stage.node()
    first = stage.holding(lender, lender_url, content, salt=salts[0], encrypted=encrypted)
    second = stage.holding(borrower, borrower_url, content, salt=salts[1], encrypted=encrypted)
    for holding in (first, second):
        assert stage.audit(holding, 30).outcome is Outcome.PASSED
    borrower.turn(Borrower(lender, first))
    assert stage.audit(first, 30).outcome is Outcome.PASSED
    assert stage.audit(second, 30).outcome is outcome


class Fetcher:
    """Keeps nothing, and fetches what is asked for from a neighbour who keeps all of it."""

    def __init__(self, stage: Stage, neighbour: Path, moved: Holding, seconds: int) -> None:
        owner = stage.keyring.owner
        objects = open_objects(str(neighbour))
        store = Store(objects, [owner], Limits(), lambda: stage.time, segment_bytes=SEGMENT)
        stage.open.callback(store.close)
        self.kept = store.account(owner).holding(moved.key_id)
        self.advance, self.seconds = stage.world.advance, seconds

    def __call__(self, node: Turncoat, _holding: Kept, question: ProofQuestion) -> Answer:
        self.advance(self.seconds)
        challenge = question.challenge
        return node.signed(question, self.kept.prove(challenge))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "outcome"),
    [(PATIENCE - 1, Outcome.PASSED), (PATIENCE + 1, Outcome.TIMED_OUT)],
    ids=["before the deadline", "after the deadline"],
)
def test_a_node_may_fetch_the_sample_from_a_neighbour_and_only_the_deadline_bounds_it(
    stage: Stage, seconds: int, outcome: Outcome
) -> None:
    """A pass shows that the sample can be had within the deadline, not on whose disk it lies."""
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(60), encrypted=True)
    neighbour = stage.folder / "neighbour"
    (own,) = stage.folder.glob("store-*")
    shutil.copytree(own, neighbour)
    drop(node, holding, list(range(60)))
    assert stage.audit(holding, 30).outcome is Outcome.FAILED, "it keeps nothing itself"
    node.turn(Fetcher(stage, neighbour, holding, seconds))
    result = stage.audit(holding, 30)
    assert result.outcome is outcome
    assert outcome is Outcome.PASSED or "deadline" in result.reason
