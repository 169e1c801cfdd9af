"""How an audit ends, and the steps that may follow."""

from enum import StrEnum


class Outcome(StrEnum):
    """How an audit ends. Only the first four say something about the data."""

    PASSED = "passed"
    FAILED = "failed"  # a wrong proof that the node signed
    ADMITTED = "admitted"  # the node said that what it stored is damaged, and gave no proof
    TIMED_OUT = "timed-out"  # the node took the challenge, and gave no proof before the deadline
    OFFLINE = "offline"  # no challenge could be delivered, however often we tried
    UNKNOWN = "unknown"  # something of ours stood in the way: the ledger, the disk, a crash


class Step(StrEnum):
    FOLLOW_UP = "follow-up"
    LOCALISED = "localised"
    REPAIRED = "repaired"
    LOST = "lost"  # no replica has these blocks
    QUARANTINED = "quarantined"
    RELEASED = "released"
    ALERTED = "alerted"
    PLANTED = "planted"  # the owner damaged blocks of its own, to see whether audits find them
    LIFTED = "lifted"  # and put them back
    REMOVED = "removed"  # the owner stores nothing there any more
