"""Keccak-256, by which the contract hashes, and what is built of it: addresses and trees."""

from collections.abc import Sequence

from coincurve import PublicKey
from sha3 import keccak_256

ZERO = bytes(32)


def keccak(content: bytes) -> bytes:
    digest: bytes = keccak_256(content).digest()
    return digest


def address_of(point: PublicKey) -> bytes:
    """Return the 20 bytes by which the chain knows a point."""
    return keccak(point.format(compressed=False)[1:])[12:]


class Tree:
    """The contract's Merkle tree; a node without a right neighbour is hashed with zero."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self.levels = [list(leaves)]
        while len(self.levels[-1]) > 1:
            level = self.levels[-1]
            if len(level) % 2:
                level = [*level, ZERO]
            self.levels.append([keccak(level[i] + level[i + 1]) for i in range(0, len(level), 2)])

    @property
    def root(self) -> bytes:
        return self.levels[-1][0]

    def path(self, index: int, level: int = 0) -> tuple[bytes, ...]:
        """Return the siblings on the way up from the node `index` of a level."""
        siblings = []
        for nodes in self.levels[level:-1]:
            beside = index ^ 1
            siblings.append(nodes[beside] if beside < len(nodes) else ZERO)
            index //= 2
        return tuple(siblings)
