"""Verdicts: what the ledger says of a challenge, read from its receipts."""

from dataclasses import dataclass

from holdfast.evidence.leaf import Outcome, Transaction
from holdfast.ledger.interface import Failed, Ledger, Passed, Receipt, TimedOut

OUTCOMES = {Passed: Outcome.PASSED, Failed: Outcome.FAILED, TimedOut: Outcome.TIMED_OUT}


@dataclass(frozen=True)
class Verdict:
    """The verdict on a challenge, and its record on the ledger with its share of the gas."""

    outcome: Outcome  # passed, failed or timed-out
    record: Transaction


def verdict_in(receipt: Receipt, holding: int, challenge: bytes) -> Verdict | None:
    """Return the verdict on this challenge in a receipt, if there is one.

    Anyone may write to a ledger: an event counts only for the holding and challenge that it names.
    """
    verdicts = [event for event in receipt.events if isinstance(event, (Passed, Failed, TimedOut))]
    for event in verdicts:
        if (event.holding, event.challenge) == (holding, challenge):
            record = Transaction(receipt.transaction, receipt.block, receipt.gas // len(verdicts))
            return Verdict(OUTCOMES[type(event)], record)
    return None


def find_verdict(ledger: Ledger, holding: int, challenge: bytes, since: int) -> Verdict | None:
    """Return the ledger's verdict on a challenge since that block, if there is one."""
    for receipt in ledger.receipts(since):
        if verdict := verdict_in(receipt, holding, challenge):
            return verdict
    return None
