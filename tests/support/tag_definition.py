"""A tag as the protocol defines it, for comparison with the vectorised code."""

from holdfast.pdp import SecretKey
from holdfast.pdp.field import SECTOR_BYTES, Q


def tag_of(
    key: SecretKey, file_id: bytes, version: int, nonce: bytes, index: int, block: bytes
) -> int:
    """Return one tag, by the definition."""
    products = sum(a * m for a, m in zip(key.alphas, sectors_of(block), strict=True))
    return (key.prf(file_id, version, nonce).value(index) + products) % Q


def sectors_of(block: bytes) -> list[int]:
    """Return the block's sectors, each a little-endian integer of 31 bytes."""
    return [
        int.from_bytes(block[start : start + SECTOR_BYTES], "little")
        for start in range(0, len(block), SECTOR_BYTES)
    ]
