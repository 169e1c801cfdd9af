"""What an audit costs in gas on the contract: the figures of `holdfast bench ledger`.

They do not depend on how many blocks are sampled.
"""

from holdfast.errors import InputError

OPENING = 51_847
OPENING_IN_A_BATCH = 1_477  # each of a thousand
# By sectors a block: a proof that passes by itself, and with as many as the contract takes at once.
PASSING = {1: 31_553, 4: 56_238, 16: 132_091, 64: 436_268, 128: 843_005}
PASSING_IN_A_BATCH = {1: 10_845, 4: 37_073, 16: 120_185, 64: 454_353, 128: 905_397}


def gas_of_an_audit(sectors: int, *, batched: bool) -> int:
    """Return the gas of opening a challenge and settling a proof that passes."""
    if sectors not in PASSING:
        known = ", ".join(map(str, PASSING))
        raise InputError(f"there is no contract for {sectors} sectors a block, only for {known}")
    if batched:
        return OPENING_IN_A_BATCH + PASSING_IN_A_BATCH[sectors]
    return OPENING + PASSING[sectors]
