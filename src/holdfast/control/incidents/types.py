"""Types of the responses to failed audits: steps, their states, tasks, and kinds of alerts."""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.evidence import leaf


class Step(StrEnum):
    FOLLOW_UP = "follow-up"
    LOCALISE = "localise"
    REPAIR = "repair"
    QUARANTINE = "quarantine"
    ALERT = "alert"


class State(StrEnum):
    PLANNED = "planned"
    READY = "ready"
    ASKED = "asked"  # the audit that follows up is on the schedule
    DONE = "done"
    DROPPED = "dropped"


OPEN_STATES = (State.PLANNED, State.READY, State.ASKED)


class Kind(StrEnum):
    """What alerts are about here."""

    DAMAGED = "holding-damaged"
    FAILED = "audit-failed"
    QUARANTINED = "holding-quarantined"


@dataclass(frozen=True)
class Task:
    """A step that is ready, and ours until its lease ends."""

    id: int
    token: int
    holding: int
    name: str
    audit: int
    step: Step
    detail: str
    began: int
    progress: bytes | None
    checked: bool = False  # by a tool, not by proofs
    node: bytes | None = None  # that the holding is on, if it is on one


@dataclass(frozen=True)
class Progress:
    """How many blocks a step has done, of how many."""

    done: int
    total: int


@dataclass(frozen=True)
class ResponseRecord:
    """What the evidence records of a step."""

    step: leaf.Step
    detail: str
    blocks: tuple[leaf.Span, ...] = ()
    units: tuple[str, ...] = ()  # of a holding that is checked, instead of blocks
