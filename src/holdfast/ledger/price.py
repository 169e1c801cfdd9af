"""What an audit costs in gas on the contract: the figures of `holdfast bench ledger`.

They do not depend on how many blocks are sampled.
"""

from enum import StrEnum

from holdfast.errors import InputError

PASSING = {1: 31_553, 4: 56_238, 16: 132_091, 64: 436_268, 128: 843_005}  # by sectors a block
OPENING = 51_847
# Each of a thousand that are opened at once, of a hundred proofs in a transaction, and of a
# thousand verdicts under one root.
OPENING_IN_A_BATCH = 1_477
PASSING_IN_A_BATCH = 10_846  # for one sector a block
VERDICT_IN_A_BATCH = 46


class Settlement(StrEnum):
    """How challenges and proofs come to the ledger."""

    SINGLE = "single"
    BATCH = "batch"
    OPTIMISTIC = "optimistic"


def gas_of_an_audit(sectors: int, settlement: Settlement) -> int:
    """Return the gas of opening a challenge and settling a proof that passes.

    The full check in a batch was measured for one sector a block: for more, what they add to a
    proof by itself is added.
    """
    if sectors not in PASSING:
        known = ", ".join(map(str, PASSING))
        raise InputError(f"there is no contract for {sectors} sectors a block, only for {known}")
    if settlement is Settlement.SINGLE:
        return OPENING + PASSING[sectors]
    if settlement is Settlement.BATCH:
        return OPENING_IN_A_BATCH + PASSING_IN_A_BATCH + PASSING[sectors] - PASSING[1]
    return OPENING_IN_A_BATCH + VERDICT_IN_A_BATCH
