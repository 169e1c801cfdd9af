"""A pending check of storage, as it is saved in the holding's row: enough to resume after a crash.

First the storage is listed and a sample is drawn. Then the checker checks it, and what it calls
damaged is looked at once more.
"""

import base64
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.checkers import codec
from holdfast.checkers.interface import Report


class Phase(StrEnum):
    LISTING = "listing"  # nothing is drawn yet
    FIRST_LOOK = "first-look"
    SECOND_LOOK = "second-look"  # at what the first one called damaged


@dataclass(frozen=True)
class PendingCheck:
    """Times are milliseconds since 1970."""

    due: int
    seed: bytes  # of the sample; no other check has the same
    since: int  # when it was prepared
    phase: Phase = Phase.LISTING
    troubled: int = 0  # since when the storage can't be reached, if it can't
    tries: int = 0  # since then
    reason: str = ""  # why the last of them did not
    # From here on, what is known once the sample is drawn.
    units: int = 0  # that there are
    unit: str = ""
    tool: str = ""
    drawn: int = 0  # units in the sample
    sample: bytes = b""  # hash of the names of the groups in it
    overrides: int = 0  # guardrails that changed the sample
    began: int = 0
    deadline: int = 0
    moved: int = 0  # when the look that is under way got further
    done: int = 0  # units, of that look
    job: bytes = b""  # by which its checker knows the look that is under way
    old_job: bytes = b""  # a look that is over, to be deleted
    first: Report | None = None  # what the first look said, during the second

    @property
    def id(self) -> bytes:
        """What tells this check from all others."""
        return self.seed

    def encode(self) -> bytes:
        fields: dict[str, Any] = dict(vars(self))
        for name in _HEXADECIMAL:
            fields[name] = fields[name].hex()
        for name in _BASE64:
            fields[name] = base64.b64encode(fields[name]).decode()
        fields["first"] = None if self.first is None else codec.dump(self.first).decode()
        return json.dumps(fields).encode()

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "PendingCheck":
        for name in _HEXADECIMAL:
            fields[name] = bytes.fromhex(fields[name])
        for name in _BASE64:
            fields[name] = base64.b64decode(fields[name])
        fields["phase"] = Phase(fields["phase"])
        if fields["first"] is not None:
            content = fields["first"].encode()
            fields["first"] = codec.load(Report, content, "the report of a first look")
        return cls(**fields)


_HEXADECIMAL = ("seed", "sample")
_BASE64 = ("job", "old_job")
