"""A pending audit as it is saved in the holding's row: enough to resume after any crash."""

import json
from dataclasses import dataclass

from holdfast.ledger import check
from holdfast.ledger.interface import Batch
from holdfast.owner.audit import BatchPosition, Question
from holdfast.pdp import Challenge, Target


@dataclass(frozen=True)
class PendingAudit:
    due: int
    challenge: Challenge
    target: Target
    deadline: int  # seconds since 1970, as ledgers count
    batch: bytes | None = None  # the seed of the batch that it is opened in, if it is
    index: int = 0  # its position there
    since: int = 0  # the ledger's height when it was prepared: nothing about it is below
    # Times from here on are milliseconds since 1970.
    opened_at: int | None = None  # as far as we know
    spent: int = 0  # gas, on opening it
    tries: int = 0
    next_try: int = 0  # when the node is asked again, or the deadline has passed
    delivered: bool = False  # whether the node took the challenge, at any try
    counted: bool = False  # whether it is compared with probes: one per node at a time
    answered: int | None = None  # when an answer arrived that we could not settle in time
    sent: int | None = None  # when the node was last asked
    reason: str = ""  # why there is no answer yet

    def question(self, holding: int, batch: Batch | None) -> Question:
        """Return the challenge as the ledger takes it, with its batch if it is in one."""
        target = check.target_address(self.target)
        place = None if batch is None else BatchPosition(batch, self.index)
        return Question(holding, self.challenge, target, self.deadline, place)

    def encode(self) -> bytes:
        return json.dumps(
            {
                "due": self.due,
                "challenge": self.challenge.encode().decode(),
                "target": self.target.encode().decode(),
                "deadline": self.deadline,
                "batch": None if self.batch is None else self.batch.hex(),
                "index": self.index,
                "since": self.since,
                "opened_at": self.opened_at,
                "spent": self.spent,
                "tries": self.tries,
                "next_try": self.next_try,
                "delivered": self.delivered,
                "counted": self.counted,
                "answered": self.answered,
                "sent": self.sent,
                "reason": self.reason,
            }
        ).encode()

    @classmethod
    def decode(cls, content: bytes) -> "PendingAudit":
        fields = json.loads(content)
        challenge = Challenge.decode(fields.pop("challenge").encode())
        target = Target.decode(fields.pop("target").encode())
        seed = fields.pop("batch")
        batch = None if seed is None else bytes.fromhex(seed)
        return cls(challenge=challenge, target=target, batch=batch, **fields)
