"""Two nodes that keep one copy between them and answer for two.

Tags differ from replica to replica, but plain data do not. So what keeps the nodes from sharing is
encryption under each replica's own key, and nothing else: without it the audits of both pass.
"""

import pytest
from tests.adversaries.stage import Stage, Turncoat

from holdfast.node.answers import ProofAnswer, ProofRequest
from holdfast.node.holding import Holding as Kept
from holdfast.node.place import Part
from holdfast.owner import Holding, Outcome
from holdfast.pdp import Challenge, Prover, StoredFile


class Borrower:
    """Keeps its own tags, which are small, and reads the data of another node."""

    def __init__(self, lender: Turncoat, lent: Holding) -> None:
        self.kept = lender.kept(lent)

    def __call__(self, node: Turncoat, holding: Kept, request: ProofRequest) -> ProofAnswer:
        (mine,), (theirs,) = holding.record.files, self.kept.record.files
        data = self.kept.reader(theirs, Part.DATA)
        stored = {mine.file_id: StoredFile(data, holding.stored(mine).tags)}
        challenge = Challenge.decode(request.challenge.encode())
        proof = Prover(holding.record.inventory, stored).prove(challenge)
        return node.signed(holding, request, proof)


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
