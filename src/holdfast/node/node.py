"""A storage node without its network: key, store and the owners it serves."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.errors import LedgerError
from holdfast.ledger import signing
from holdfast.ledger.interface import LedgerRefusedError
from holdfast.node.holding import Holding
from holdfast.node.identity import NodeKey
from holdfast.node.proof_messages import ProofAnswer, ProofRequest, signed_part
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.pdp import Challenge, PublicKey

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
        try:
            known = self.register(int(holding, 16))
        except LedgerRefusedError as error:
            raise NodeRefusedError(
                Code.CONFLICT, "the ledger does not know that holding: register it first"
            ) from error
        except LedgerError as error:
            raise NodeRefusedError(Code.STORAGE, f"the ledger can't be asked: {error}") from error
        if known != public:
            raise NodeRefusedError(Code.CONFLICT, "the ledger has another key for that holding")

    def prove(self, holding: Holding, request: ProofRequest) -> ProofAnswer:
        challenge = Challenge.decode(request.challenge.encode())
        cap = self.store.limits.samples
        if challenge.samples > cap:
            raise NodeRefusedError(
                Code.SAMPLE_CAP, f"this node proves at most {cap} blocks at once"
            )
        signed = signed_part(holding.layout.key_id, challenge, request.answer_to)
        proof = holding.prove(challenge)
        signature = signing.sign(self.key.private, *signed, proof)
        return ProofAnswer(proof=proof.encode().decode(), signature=signature.hex())
