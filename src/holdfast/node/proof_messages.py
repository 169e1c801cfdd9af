"""What an owner asks a node to prove, and what the node's signature over its answer covers."""

from dataclasses import dataclass
from typing import Self

from holdfast.ledger import signing
from holdfast.ledger.interface import Answer, Domain, Opening
from holdfast.node.identity import NodeKey
from holdfast.pdp import Challenge, Proof

NOWHERE = Domain(0, bytes(20))  # of answers outside any ledger


@dataclass(frozen=True)
class AnswerTo:
    """Which open challenge of which ledger a proof answers."""

    domain: Domain
    holding_id: int
    opening: Opening

    @classmethod
    def of(cls, domain: Domain, holding: int, opening: Opening) -> Self:
        return cls(domain, holding, opening)

    def name_of(self, challenge: Challenge) -> bytes:
        """Return the name under which this very challenge is open on the ledger.

        The node works it out: one that signed a proof for another could be shown to fail.
        """
        return self.opening.name(self.holding_id, challenge)


@dataclass(frozen=True)
class ProofQuestion:
    """A challenge to one holding, and what it answers on a ledger, if on any."""

    key_id: bytes
    challenge: Challenge
    to: AnswerTo | None = None

    @property
    def signed_part(self) -> tuple[Domain, int, bytes]:
        """What a node signs its proof for: ledger, holding and challenge.

        Where no ledger has asked, the key stands for the holding and the challenge has its own id.
        """
        if self.to is None:
            return NOWHERE, int.from_bytes(self.key_id, "big"), self.challenge.id
        return self.to.domain, self.to.holding_id, self.to.name_of(self.challenge)


def sign_answer(key: NodeKey, question: ProofQuestion, proof: Proof) -> Answer:
    """Return a proof with the node's signature."""
    return Answer(proof, signing.sign(key.private, *question.signed_part, proof))
