"""Proofs on the wire: what is asked, for which ledger, and what the node's signature is over."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints

from holdfast.ledger.interface import NUMBER_BITS, Batch, Domain, Entry, batch_seed, owner_of
from holdfast.node.identity import ADDRESS_BYTES
from holdfast.node.wire import Hex20, Hex32, Message
from holdfast.pdp import Challenge, Proof

NOWHERE = Domain(0, bytes(20))  # of answers that no ledger has asked for


class InBatch(Message):
    """What names a challenge that was opened with others: its batch, and its word there."""

    seed: Hex32
    deadline: Annotated[int, Field(ge=0, lt=2**63)]
    word: Hex32


class AnswerTo(Message):
    """Which open challenge of which ledger a proof answers. Numbers of 256 bits are hexadecimal."""

    chain: Annotated[int, Field(ge=0, lt=2**63)]
    contract: Hex20
    holding: Hex32
    challenge: Hex32
    batch: InBatch | None = None

    @classmethod
    def single(cls, domain: Domain, holding: int, challenge: Challenge) -> Self:
        return cls(
            chain=domain.chain,
            contract=domain.contract.hex(),
            holding=f"{holding:064x}",
            challenge=challenge.id.hex(),
        )

    @classmethod
    def of_batch(cls, domain: Domain, batch: Batch, index: int) -> Self:
        return cls(
            chain=domain.chain,
            contract=domain.contract.hex(),
            holding=f"{batch.holding(index):064x}",
            challenge=batch.challenge_id(index).hex(),
            batch=InBatch(
                seed=batch.seed.hex(), deadline=batch.deadline, word=batch.words[index].hex()
            ),
        )

    def asks_for(self, challenge: Challenge) -> bool:
        """Return whether what is open on the ledger is this challenge and no other.

        A node that signed a proof of another one could be shown to fail.
        """
        if self.batch is None:
            return bytes.fromhex(self.challenge) == challenge.id
        holding, word = int(self.holding, 16), bytes.fromhex(self.batch.word)
        if holding >> (8 * ADDRESS_BYTES + NUMBER_BITS):
            return False
        seed, entry = bytes.fromhex(self.batch.seed), Entry.decode(word)
        batch = Batch(owner_of(holding), seed, self.batch.deadline, (word,))
        asked = (batch.challenge_id(0), batch.holding(0), batch_seed(seed, holding))
        opened = (bytes.fromhex(self.challenge), holding, challenge.seed)
        whole = (challenge.start, challenge.stop) == (0, challenge.blocks)
        return (
            whole
            and asked == opened
            and entry.samples == challenge.samples
            and entry.inventory == challenge.inventory_hash[:4]
        )


class ProofRequest(Message):
    challenge: Annotated[str, StringConstraints(max_length=4096)]  # a document of `pdp.Challenge`
    answer_to: AnswerTo | None = None


class ProofAnswer(Message):
    proof: str  # a document of `pdp.Proof`
    signature: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{130}$")]


def signed_part(
    key_id: bytes, to: AnswerTo | None, proof: Proof
) -> tuple[Domain, int, bytes, Proof]:
    """Return what the node's signature of an answer is over.

    Where no ledger has asked, the key stands for the holding and the challenge has its own id.
    """
    if to is None:
        return NOWHERE, int.from_bytes(key_id, "big"), proof.challenge_id, proof
    domain = Domain(to.chain, bytes.fromhex(to.contract))
    return domain, int(to.holding, 16), bytes.fromhex(to.challenge), proof
