"""The contract's check of a proof, in Python, and the hints that it needs for several sectors.

The target of a challenge is the address of -T. A proof passes if the points mu_j A_j - rho_j G,
where the rho_j sum to sigma, sum to -T: that is sigma G == T + sum_j mu_j A_j.
"""

from collections.abc import Iterator

from coincurve import PublicKey as CurvePoint

from holdfast.errors import InputError, MalformedError
from holdfast.ledger.keccak import address_of, keccak
from holdfast.pdp import Proof, PublicKey, Target, curve
from holdfast.pdp.field import Q, scalar_to_bytes

P = 2**256 - 2**32 - 977
_BASE_X = int.from_bytes(curve.encode(curve.times_base(1))[1:], "big")


def target_address(target: Target) -> bytes:
    """Return the address of -T, by which the contract knows the target."""
    point = curve.times(curve.decode(target.point), Q - 1)
    if point is None:
        raise InputError("the target is the point at infinity: draw another challenge")
    return address_of(point)


def ecrecover_arguments(x: int, mu: int, rho: int) -> tuple[int, int, int]:
    """Return z, r and s for which ecrecover names mu A - rho G, where A has that x."""
    if mu == 0:  # the precompile refuses s = 0
        return 0, _BASE_X, (Q - rho) * _BASE_X % Q
    return rho * x % Q, x, mu * x % Q


def recover_point(x: int, mu: int, rho: int) -> CurvePoint | None:
    """Return mu A - rho G, or nothing if that is the point at infinity."""
    z, r, s = ecrecover_arguments(x, mu, rho)
    signature = scalar_to_bytes(r) + scalar_to_bytes(s) + b"\0"
    try:
        return CurvePoint.from_signature_and_message(signature, scalar_to_bytes(z), hasher=None)
    except ValueError:  # also for s = 0, that is for sigma = mu = 0
        return None


def passes(public: PublicKey, target: bytes, proof: Proof) -> bool:
    """Return whether the contract would accept the proof; raise if it would not even look."""
    if len(proof.mu) != public.sectors:
        raise MalformedError(
            f"the proof is for {len(proof.mu)} sectors, the key for {public.sectors}"
        )
    if not all(0 <= value < Q for value in (proof.sigma, *proof.mu)):
        raise MalformedError("the proof has a value that is not below q")
    negated = [curve.times(A, m) for A, m in zip(public.points, proof.mu, strict=True)]
    total = curve.total([*negated, curve.times_base(Q - proof.sigma)])
    return total is not None and address_of(total) == target


def encode(proof: Proof) -> bytes:
    """Return the bytes that a node signs and whose hash names the proof."""
    return b"".join(map(scalar_to_bytes, (proof.sigma, *proof.mu)))


def digest(proof: Proof) -> bytes:
    return keccak(encode(proof))


def hints(public: PublicKey, target: bytes, proof: Proof) -> tuple[list[tuple[int, int]], int]:
    """Return each sector's point mu_j A_j - rho_j G, and 1/Z of their sum in Jacobian coordinates.

    Z is the product of what the contract multiplies it with: at each addition, x of the new point
    times Z^2 less X.
    """
    points: list[tuple[int, int]] = [(0, 0)] * public.sectors
    partial: CurvePoint | None = None
    z = 1
    for j, rho in _blinding(target, proof):
        point = recover_point(int.from_bytes(public.abscissas[j], "big"), proof.mu[j], rho)
        if point is None:
            raise InputError("a hint is the point at infinity: draw another challenge")
        points[j] = point.point()
        if partial is None:
            partial = point
            continue
        # X = x Z^2 for the affine x of the sum so far, so that h = (x_new - x) Z^2.
        z = z * (points[j][0] - partial.point()[0]) * z * z % P
        partial = curve.total([partial, point])
        if partial is None:
            raise InputError("the hints sum to the point at infinity: draw another challenge")
    return points, pow(z, -1, P)


def _blinding(target: bytes, proof: Proof) -> Iterator[tuple[int, int]]:
    """Yield the sectors that take part, with their rho; the last one carries the remainder."""
    nonzero = [j for j, value in enumerate(proof.mu) if value]
    e = int.from_bytes(keccak(bytes(12) + target + encode(proof)), "big") % Q
    power, rest = 1, proof.sigma
    for j in nonzero[:-1]:
        power = power * e % Q
        rest = (rest - power) % Q
        yield j, power
    if nonzero:
        yield nonzero[-1], rest
