"""Points of secp256k1, the group in which proofs are checked without the key.

`None` is the point at infinity, which the library underneath cannot represent.
"""

from collections.abc import Iterable

from coincurve import PrivateKey, PublicKey

from holdfast.errors import MalformedError
from holdfast.pdp.field import SCALAR_BYTES, Q, scalar_to_bytes

Point = PublicKey | None
POINT_BYTES = 33
_INFINITY = bytes(POINT_BYTES)


def times_base(scalar: int) -> Point:
    if scalar % Q == 0:
        return None
    return PrivateKey(scalar_to_bytes(scalar % Q)).public_key


def times(point: Point, scalar: int) -> Point:
    if point is None or scalar % Q == 0:
        return None
    return point.multiply(scalar_to_bytes(scalar % Q))


def total(points: Iterable[Point]) -> Point:
    finite = [point for point in points if point is not None]
    if not finite:
        return None
    try:
        return PublicKey.combine_keys(finite)
    except ValueError:  # libsecp256k1's word for a sum at infinity
        return None


def encode(point: Point) -> bytes:
    return _INFINITY if point is None else bytes(point.format(compressed=True))


def decode(encoded: bytes, what: str = "point") -> Point:
    if encoded == _INFINITY:
        return None
    if len(encoded) != POINT_BYTES:
        raise MalformedError(f"{what} is not a compressed point of {POINT_BYTES} bytes")
    try:
        return PublicKey(encoded)
    except ValueError as error:
        raise MalformedError(f"{what} is not on the curve secp256k1") from error


def lift(x: bytes, what: str = "point") -> PublicKey:
    """Return the point with that x and an even y. The contract's check needs x below q."""
    if len(x) != SCALAR_BYTES or int.from_bytes(x, "big") >= Q:
        raise MalformedError(f"{what} has an x that is not a {SCALAR_BYTES}-byte number below q")
    try:
        return PublicKey(b"\x02" + x)
    except ValueError as error:
        raise MalformedError(f"{what} is not on the curve secp256k1") from error
