# pragma version 0.4.3
"""
The check of a proof over blocks of several sectors: sigma G == T + sum_j mu_j A_j.

The prover passes the points X_j = mu_j A_j - rho_j G as hints. Each is checked by one ecrecover, and
they are added in Jacobian coordinates; the rho_j sum to sigma, so that the sum must be -T. As
the rho_j come from a hash of the proof, no addition meets equal or opposite points, and nobody
can search for two points of one address. Sectors with mu_j = 0 take no part.
"""

SECTORS: constant(uint256) = 16
Q: constant(uint256) = 115792089237316195423570985008687907852837564279074904382605163141518161494337
P: constant(uint256) = 115792089237316195423570985008687907853269984665640564039457584007908834671663
GX: constant(uint256) = 55066263022277343669578718895168534326250603453777594175500187360389116729240
LOW_160: constant(uint256) = 2**160 - 1
EVEN: constant(uint256) = 27  # keys have an even y, and so has G
# Returns what follows it as code. The leading zero keeps that code from ever running.
DEPLOY: constant(Bytes[12]) = x"600B5981380380925939F300"

struct Proof:
    sigma: uint256
    mu: uint256[SECTORS]
    hints: uint256[2][SECTORS]
    inverse: uint256  # of Z of the sum


@internal
def enrol(points: uint256[SECTORS]) -> uint256:
    """
    Store the key as code, which is read for 2,600 gas at any size; storage takes 2,100 a point.
    """
    for x: uint256 in points:
        assert ecrecover(empty(bytes32), EVEN, x, x) != empty(address), "malformed"
    return convert(raw_create(concat(DEPLOY, abi_encode(points))), uint256)


@internal
@view
def passes(key: uint256, target: address, proof: Proof) -> bool:
    last: uint256 = SECTORS
    assert proof.sigma < Q, "malformed"
    for j: uint256 in range(SECTORS):
        assert proof.mu[j] < Q, "malformed"
        if proof.mu[j] != 0:
            last = j
    if last == SECTORS:
        s: uint256 = uint256_mulmod(Q - proof.sigma, GX, Q)
        found: address = ecrecover(empty(bytes32), EVEN, GX, s)
        return found == target and target != empty(address)

    code: Bytes[32 * SECTORS] = slice(convert(convert(key, uint160), address).code, 1, 32 * SECTORS)
    points: uint256[SECTORS] = abi_decode(code, uint256[SECTORS])
    e: uint256 = convert(keccak256(abi_encode(target, proof.sigma, proof.mu)), uint256) % Q
    power: uint256 = 1
    rest: uint256 = proof.sigma
    x: uint256 = 0
    y: uint256 = 0
    z: uint256 = 0
    first: bool = True
    for j: uint256 in range(SECTORS):
        mu: uint256 = proof.mu[j]
        if mu == 0:
            continue
        rho: uint256 = rest
        if j != last:
            power = uint256_mulmod(power, e, Q)
            rest = uint256_addmod(rest, unsafe_sub(Q, power), Q)
            rho = power
        r: uint256 = points[j]
        hint: uint256[2] = proof.hints[j]
        named: address = ecrecover(
            convert(uint256_mulmod(rho, r, Q), bytes32), EVEN, r, uint256_mulmod(mu, r, Q)
        )
        hashed: uint256 = convert(keccak256(abi_encode(hint)), uint256) & LOW_160
        assert convert(named, uint256) == hashed, "malformed"
        if first:
            x = hint[0]
            y = hint[1]
            z = 1
            first = False
            continue
        zz: uint256 = uint256_mulmod(z, z, P)
        h: uint256 = uint256_addmod(uint256_mulmod(hint[0], zz, P), unsafe_sub(P, x), P)
        d: uint256 = uint256_addmod(
            uint256_mulmod(hint[1], uint256_mulmod(z, zz, P), P), unsafe_sub(P, y), P
        )
        hh: uint256 = uint256_mulmod(h, h, P)
        hhh: uint256 = uint256_mulmod(h, hh, P)
        v: uint256 = uint256_mulmod(x, hh, P)
        x = uint256_addmod(
            uint256_mulmod(d, d, P),
            unsafe_sub(P, uint256_addmod(hhh, uint256_addmod(v, v, P), P)),
            P,
        )
        y = uint256_addmod(
            uint256_mulmod(d, uint256_addmod(v, unsafe_sub(P, x), P), P),
            unsafe_sub(P, uint256_mulmod(y, hhh, P)),
            P,
        )
        z = uint256_mulmod(z, h, P)
    assert uint256_mulmod(z, proof.inverse, P) == 1, "malformed"
    square: uint256 = uint256_mulmod(proof.inverse, proof.inverse, P)
    total: uint256[2] = [
        uint256_mulmod(x, square, P),
        uint256_mulmod(y, uint256_mulmod(square, proof.inverse, P), P),
    ]
    at: uint256 = convert(keccak256(abi_encode(total)), uint256) & LOW_160
    return at == convert(target, uint256)


@internal
@pure
def digest(proof: Proof) -> bytes32:
    return keccak256(abi_encode(proof.sigma, proof.mu))
