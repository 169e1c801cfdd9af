"""Checks of a restic repository: one that passed, and one that found a damaged pack."""

from dataclasses import replace

from sqlalchemy import Connection, insert

from holdfast.evidence.decision import Choice, Decision, Freshness, Policy, Telemetry
from holdfast.evidence.escaping import escape_words, hash_names, hash_words
from holdfast.evidence.leaf import CheckedHolding, DamagedUnit, Defect, Outcome, StorageCheck
from holdfast.model.action import Action
from holdfast.storage.schema import holdings

START = 1_900_000_000_000
MINUTE = 60_000
POLICY = Policy("belief", b"\x11" * 32)
ATTIC = CheckedHolding(7, "attic", "restic", "sftp:olga@example.org:/srv/restic")
WORDS = "read 8 packs\nno errors were found\n"
UNIT = DamagedUnit("4f9c" * 16, Defect.CHANGED, "its bytes have another hash")


def passed_check(number: int, at: int, holding: CheckedHolding = ATTIC) -> StorageCheck:
    telemetry = Telemetry(Freshness.MISSING, None, None)
    chosen = Choice(POLICY, Action(7, 0.05))
    return StorageCheck(
        at=at,
        holding=holding,
        number=number,
        decision=Decision(at - 5 * MINUTE, telemetry, chosen, None, ()),
        due_at=at - 3 * MINUTE,
        seed=bytes([number % 256]) * 32,
        unit="pack",
        tool="restic 0.14.0",
        units=164,
        drawn=8,
        sample=hash_names(["4f", "a0"]),
        checked=8,
        damaged=(),
        damaged_units=0,
        read_bytes=40_000_000,
        requests=11,
        began_at=at - 2 * MINUTE,
        ended_at=at - MINUTE,
        outcome=Outcome.PASSED,
        reason="",
        words=escape_words(WORDS),
        words_hash=hash_words(WORDS),
    )


def failed(check: StorageCheck) -> StorageCheck:
    """Return a check that found a damaged pack instead."""
    return replace(
        check,
        outcome=Outcome.FAILED,
        damaged=(UNIT,),
        damaged_units=1,
        reason="1 of 8 packs is damaged, at the second look too",
    )


PASSED = passed_check(1, START)


def add_checked_holding(connection: Connection, name: str = "attic") -> CheckedHolding:
    """Put storage that is checked on the schedule, and return how the evidence names it."""
    blank = {"history": b"", "news": False, "memory": b"", "observation": b""}
    row = insert(holdings).values(name=name, blocks=164, **blank).returning(holdings.c.id)
    id_: int = connection.execute(row).scalar_one()
    return replace(ATTIC, id=id_, name=name)
