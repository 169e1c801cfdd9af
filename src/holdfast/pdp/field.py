"""The field Z_q, q the order of secp256k1, in plain integers.

The fast paths of `limbs` are tested against these definitions.
"""

from holdfast.errors import MalformedError

Q = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
SCALAR_BYTES = 32
SECTOR_BYTES = 31  # 32 would let m and m + q collide: the tags would not bind
MAX_SECTORS = 1024
DEFAULT_SECTORS = 16


def scalar_to_bytes(value: int) -> bytes:
    return value.to_bytes(SCALAR_BYTES, "big")


def scalar_from_bytes(encoded: bytes, what: str = "scalar") -> int:
    """Return the element of Z_q, refusing a second encoding of the same element."""
    value = int.from_bytes(encoded, "big")
    if len(encoded) != SCALAR_BYTES or value >= Q:
        raise MalformedError(f"{what} is not a {SCALAR_BYTES}-byte number below q")
    return value
