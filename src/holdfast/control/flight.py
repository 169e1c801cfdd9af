"""An audit under way, as it lies in the holding's row: enough to go on with after any crash."""

import json
from dataclasses import dataclass

from holdfast.ledger import check
from holdfast.owner.audit import Question
from holdfast.pdp import Challenge, Target


@dataclass(frozen=True)
class Flight:
    due: int
    challenge: Challenge
    target: Target
    deadline: int  # seconds since 1970, as ledgers count
    since: int = 0  # the ledger's height when it was prepared: it knew nothing of it before
    opened: bool = False  # as far as we have heard
    tries: int = 0
    reached: bool = False  # whether the node was, by any try
    sent: int | None = None  # when it was first asked, in milliseconds
    reason: str = ""  # why there is no answer yet

    @property
    def question(self) -> Question:
        return Question(self.challenge, check.target_address(self.target), self.deadline)

    def encode(self) -> bytes:
        return json.dumps(
            {
                "due": self.due,
                "challenge": self.challenge.encode().decode(),
                "target": self.target.encode().decode(),
                "deadline": self.deadline,
                "since": self.since,
                "opened": self.opened,
                "tries": self.tries,
                "reached": self.reached,
                "sent": self.sent,
                "reason": self.reason,
            }
        ).encode()

    @classmethod
    def decode(cls, content: bytes) -> "Flight":
        fields = json.loads(content)
        challenge = Challenge.decode(fields.pop("challenge").encode())
        target = Target.decode(fields.pop("target").encode())
        return cls(challenge=challenge, target=target, **fields)
