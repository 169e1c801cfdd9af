"""Messages that ask for a proof and return it, and what the node's signature covers."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints

from holdfast.ledger.interface import NUMBER_BITS, Domain, Opening
from holdfast.node.wire import Hex20, Hex32, Message
from holdfast.pdp import Challenge

NOWHERE = Domain(0, bytes(20))  # of answers outside any ledger
HOLDING_DIGITS = 40 + NUMBER_BITS // 4  # of an owner's address and a number


class AnswerTo(Message):
    """Which open challenge of which ledger a proof answers. Numbers of 256 bits are hexadecimal."""

    chain: Annotated[int, Field(ge=0, lt=2**63)]
    contract: Hex20
    holding: Annotated[str, StringConstraints(pattern=rf"^0{{16}}[0-9a-f]{{{HOLDING_DIGITS}}}$")]
    target: Hex20
    deadline: Annotated[int, Field(ge=0, lt=2**63)]
    batch: Hex32 | None = None

    @classmethod
    def of(cls, domain: Domain, holding: int, opening: Opening) -> Self:
        return cls(
            chain=domain.chain,
            contract=domain.contract.hex(),
            holding=f"{holding:064x}",
            target=opening.target.hex(),
            deadline=opening.deadline,
            batch=None if opening.batch is None else opening.batch.hex(),
        )

    @property
    def domain(self) -> Domain:
        return Domain(self.chain, bytes.fromhex(self.contract))

    @property
    def holding_id(self) -> int:
        return int(self.holding, 16)

    def name_of(self, challenge: Challenge) -> bytes:
        """Return the name under which this very challenge is open on the ledger.

        The node works it out: one that signed a proof for another could be shown to fail.
        """
        batch = None if self.batch is None else bytes.fromhex(self.batch)
        opening = Opening(bytes.fromhex(self.target), self.deadline, batch)
        return opening.name(self.holding_id, challenge)


class ProofRequest(Message):
    challenge: Annotated[str, StringConstraints(max_length=4096)]  # a document of `pdp.Challenge`
    answer_to: AnswerTo | None = None


class ProofAnswer(Message):
    proof: str  # a document of `pdp.Proof`
    signature: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{130}$")]


def signed_part(
    key_id: bytes, challenge: Challenge, to: AnswerTo | None
) -> tuple[Domain, int, bytes]:
    """Return what a node signs its proof for: ledger, holding and challenge.

    Where no ledger has asked, the key stands for the holding and the challenge has its own id.
    """
    if to is None:
        return NOWHERE, int.from_bytes(key_id, "big"), challenge.id
    return to.domain, to.holding_id, to.name_of(challenge)
