"""A storage node without its network: key, store and the owners it serves."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.errors import HoldfastError, LedgerError
from holdfast.ledger.interface import Answer, LedgerRefusedError
from holdfast.node.error_codes import ERRORS
from holdfast.node.holding import Holding
from holdfast.node.identity import NodeKey
from holdfast.node.proof_messages import ProofQuestion, sign_answer
from holdfast.node.signature import Gate
from holdfast.node.store import Account, Store
from holdfast.node.time_limit import within
from holdfast.node.wire import Code, NodeRefusedError, Reason
from holdfast.pdp import PublicKey

PROVING_SHARE = 0.75  # of the time that a caller waits: the rest is for the answer's way back

log = logging.getLogger(__name__)

_NO_TIME_LEFT = Reason(
    code=Code.BUSY, message="the request had no time left for this proof: ask again"
)

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
            log.warning("the ledger can't be asked: %s", error)
            raise NodeRefusedError(Code.STORAGE, "the node can't ask its ledger") from error
        if known != public:
            raise NodeRefusedError(Code.CONFLICT, "the ledger has another key for that holding")

    def prove_many(
        self, account: Account, questions: Sequence[ProofQuestion], seconds: float
    ) -> list[Answer | Reason]:
        """Prove one challenge after another, and refuse what can't be proved.

        After the first, a proof begins only if one more that takes as long as the longest so far
        would end in time, and while all together have no more blocks than one proof may have.
        """
        limits = self.store.limits
        now = time.monotonic()
        end = now + PROVING_SHARE * min(seconds, limits.proof_seconds)
        answers: list[Answer | Reason] = []
        samples, longest = 0, 0.0
        with within(seconds):  # after which nobody waits for what is still read
            for question in questions:
                samples += question.challenge.samples
                if answers and (now + longest > end or samples > limits.samples):
                    answers.append(_NO_TIME_LEFT)
                    continue
                answers.append(self._prove_or_refuse(account, question))
                began, now = now, time.monotonic()
                longest = max(longest, now - began)
        return answers

    def _prove_or_refuse(self, account: Account, question: ProofQuestion) -> Answer | Reason:
        try:
            return self.prove(account.holding(question.key_id), question)
        except HoldfastError as error:
            code, message = ERRORS.describe(error)
            return Reason(code=code, message=message)

    def prove(self, holding: Holding, question: ProofQuestion) -> Answer:
        cap = self.store.limits.samples
        if question.challenge.samples > cap:
            raise NodeRefusedError(
                Code.SAMPLE_CAP, f"this node proves at most {cap} blocks at once"
            )
        _ = question.signed_part  # a question that can't be answered costs no proof
        return sign_answer(self.key, question, holding.prove(question.challenge))
