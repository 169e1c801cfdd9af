"""A storage node: its key, its store and whom it serves, without the network."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.ledger import signing
from holdfast.ledger.interface import Domain
from holdfast.node.holding import Holding
from holdfast.node.identity import NodeKey
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import AnswerTo, Code, NodeRefusedError, ProofAnswer, ProofRequest
from holdfast.pdp import Challenge, Proof, PublicKey

NOWHERE = Domain(0, bytes(20))  # of answers that no ledger has asked for

Register = Callable[[int], PublicKey]  # the key under which a ledger knows a holding


@dataclass(frozen=True)
class Node:
    key: NodeKey
    store: Store
    gate: Gate
    register: Register | None = None

    def check_registered(self, holding: str | None, public: PublicKey) -> None:
        """Raise if the node knows a ledger, and it has another key for the holding."""
        if self.register is None:
            return
        if holding is None:
            raise NodeRefusedError(
                Code.MALFORMED, "this node asks for the holding's id on the ledger"
            )
        if self.register(int(holding, 16)) != public:
            raise NodeRefusedError(Code.CONFLICT, "the ledger has another key for that holding")

    def prove(self, holding: Holding, request: ProofRequest) -> ProofAnswer:
        challenge = Challenge.decode(request.challenge.encode())
        cap = self.store.limits.samples
        if challenge.samples > cap:
            raise NodeRefusedError(
                Code.SAMPLE_CAP, f"this node proves at most {cap} blocks at once"
            )
        to = request.answer_to
        if to is not None and not to.asks_for(challenge):
            raise NodeRefusedError(
                Code.MALFORMED, "what is open on the ledger is another challenge than the one sent"
            )
        proof = holding.prove(challenge)
        signature = signing.sign(self.key.private, *signed_part(holding.place.key_id, to, proof))
        return ProofAnswer(proof=proof.encode().decode(), signature=signature.hex())


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
