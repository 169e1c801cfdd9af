"""A pending audit as it is saved in the holding's row: enough to resume after any crash.

This one waits for a proof; `holdfast.control.audits.pending_check` has those that tools run.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.control.audits.pending_check import PendingCheck
from holdfast.ledger.interface import Opening
from holdfast.pdp import Challenge


@dataclass(frozen=True)
class PendingAudit:
    due: int
    challenge: Challenge
    target: bytes  # a point
    target_address: bytes  # by which the ledger knows the target
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
    admitted: bool = False  # whether the node answered that it has lost what was stored
    counted: bool = False  # whether it is compared with probes: one per node at a time
    answered: int | None = None  # when an answer arrived that we could not settle in time
    sent: int | None = None  # when the node was last asked
    reason: str = ""  # why there is no answer yet

    @property
    def opening(self) -> Opening:
        return Opening(self.target_address, self.deadline, self.batch)

    def encode(self) -> bytes:
        fields: dict[str, Any] = {**vars(self), "challenge": None}
        return json.dumps(
            {
                **fields,
                "challenge": _encode_bytes(asdict(self.challenge)),
                **_encode_bytes({name: fields[name] for name in _BYTES}),
            }
        ).encode()

    @property
    def id(self) -> bytes:
        """What tells this audit from all others."""
        return self.challenge.id

    @classmethod
    def decode(cls, content: bytes) -> "PendingAudit":
        return cls.from_fields(json.loads(content))

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "PendingAudit":
        challenge = fields.pop("challenge")
        seed, inventory = (bytes.fromhex(challenge.pop(n)) for n in ("seed", "inventory_hash"))
        for name in _BYTES:
            if fields[name] is not None:
                fields[name] = bytes.fromhex(fields[name])
        return cls(challenge=Challenge(seed=seed, inventory_hash=inventory, **challenge), **fields)


_BYTES = ("target", "target_address", "batch")


def _encode_bytes(fields: dict[str, Any]) -> dict[str, Any]:
    return {n: value.hex() if isinstance(value, bytes) else value for n, value in fields.items()}


Pending = PendingAudit | PendingCheck


def decode_pending(content: bytes) -> Pending:
    """Return the audit that was saved, of whichever kind it is."""
    fields = json.loads(content)
    return (PendingAudit if "challenge" in fields else PendingCheck).from_fields(fields)
