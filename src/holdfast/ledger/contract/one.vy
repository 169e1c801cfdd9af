# pragma version 0.4.3
"""
The check of a proof over blocks of one sector: sigma G == T + mu A, by one call of ecrecover.

ecrecover(z, v, r, s) names the point (s R - z G) / r, where R has x = r and the parity of v. With
R = A, s = mu r and z = sigma r it names mu A - sigma G, which must be -T: the target.
"""

SECTORS: constant(uint256) = 1
Q: constant(uint256) = 115792089237316195423570985008687907852837564279074904382605163141518161494337
GX: constant(uint256) = 55066263022277343669578718895168534326250603453777594175500187360389116729240
EVEN: constant(uint256) = 27  # keys have an even y, and so has G

struct Proof:
    sigma: uint256
    mu: uint256[SECTORS]


@internal
def enrol(points: uint256[SECTORS]) -> uint256:
    """
    Return what is stored of the key. ecrecover names R itself here, if x is below q and on the curve.
    """
    x: uint256 = points[0]
    assert ecrecover(empty(bytes32), EVEN, x, x) != empty(address), "malformed"
    return x


@internal
@view
def passes(x: uint256, target: address, proof: Proof) -> bool:
    sigma: uint256 = proof.sigma
    mu: uint256 = proof.mu[0]
    assert sigma < Q and mu < Q, "malformed"
    found: address = empty(address)
    if mu == 0:  # ecrecover refuses s = 0: take R = G and z = 0
        found = ecrecover(empty(bytes32), EVEN, GX, uint256_mulmod(Q - sigma, GX, Q))
    else:
        z: bytes32 = convert(uint256_mulmod(sigma, x, Q), bytes32)
        found = ecrecover(z, EVEN, x, uint256_mulmod(mu, x, Q))
    return found == target and target != empty(address)


@internal
@pure
def digest(proof: Proof) -> bytes32:
    return keccak256(abi_encode(proof.sigma, proof.mu))
