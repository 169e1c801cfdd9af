"""What an audit costs in gas on the contract: the figures of `holdfast bench ledger`.

They do not depend on how many blocks are sampled.
"""

from holdfast.errors import InputError

OPENING = 54_894
OPENING_IN_A_BATCH = 1_212  # per challenge, in a thousand
# By sectors a block: a proof that passes by itself, and with as many as the contract takes at once.
PASSING = {1: 31_527, 4: 56_189, 16: 132_102, 64: 436_387, 128: 842_991}
PASSING_IN_A_BATCH = {1: 10_405, 4: 36_321, 16: 118_041, 64: 445_714, 128: 884_878}


def gas_of_an_audit(sectors: int, *, batched: bool) -> int:
    """Return the gas of opening a challenge and settling a proof that passes."""
    if sectors not in PASSING:
        known = ", ".join(map(str, PASSING))
        raise InputError(f"there is no contract for {sectors} sectors a block, only for {known}")
    if batched:
        return OPENING_IN_A_BATCH + PASSING_IN_A_BATCH[sectors]
    return OPENING + PASSING[sectors]
