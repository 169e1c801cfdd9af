"""The Merkle tree of RFC 6962 (RFC 9162, section 2.1) over SHA-256, on hashes of leaves.

A log that grows keeps its frontier only, which is O(log n); proofs name the subtrees they need.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from holdfast.errors import MalformedError

HASH_BYTES = 32
SIZE_BYTES = 8
EMPTY = hashlib.sha256().digest()
SUBTREE = 256  # leaves, whose root a log keeps: so a proof hashes at most two such sets of leaves

Span = tuple[int, int]  # the leaves from start up to stop


def leaf_hash(content: bytes) -> bytes:
    return hashlib.sha256(b"\0" + content).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


@dataclass(frozen=True)
class Frontier:
    """A tree that can grow: its size and the roots of its perfect subtrees, the largest first."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def append(self, leaf: bytes) -> Self:
        """Return the tree with one more leaf, given by its hash."""
        peaks, full = self.peaks, self.size
        while full & 1:
            leaf = node_hash(peaks[-1], leaf)
            peaks, full = peaks[:-1], full >> 1
        return type(self)(self.size + 1, (*peaks, leaf))

    @property
    def root(self) -> bytes:
        if not self.peaks:
            return EMPTY
        *rest, root = self.peaks
        for peak in reversed(rest):
            root = node_hash(peak, root)
        return root

    def encode(self) -> bytes:
        return self.size.to_bytes(SIZE_BYTES, "big") + b"".join(self.peaks)

    @classmethod
    def decode(cls, content: bytes, name: str = "frontier") -> Self:
        size = int.from_bytes(content[:SIZE_BYTES], "big")
        if len(content) != SIZE_BYTES + HASH_BYTES * size.bit_count():
            raise MalformedError(f"{name} is not the frontier of a tree")
        starts = range(SIZE_BYTES, len(content), HASH_BYTES)
        return cls(size, tuple(content[at : at + HASH_BYTES] for at in starts))


def subtree_root(before: Frontier, leaf: bytes) -> bytes | None:
    """Return the root of the last subtree of 256 leaves, if this leaf completes it."""
    if before.size % SUBTREE != SUBTREE - 1:
        return None
    inner = (SUBTREE - 1).bit_count()
    return Frontier(SUBTREE - 1, before.peaks[-inner:]).append(leaf).root


def span_root(
    start: int, stop: int, leaves: Mapping[int, bytes], subtrees: Sequence[bytes]
) -> bytes:
    """Return the root over a span of a path, from hashes of leaves and roots of whole subtrees."""
    if stop - start <= SUBTREE:
        if start in leaves:
            return root_of([leaves[index] for index in range(start, stop)])
        return subtrees[start // SUBTREE]
    middle = start + _left(stop - start)
    left = span_root(start, middle, leaves, subtrees)
    return node_hash(left, span_root(middle, stop, leaves, subtrees))


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the tree over these hashes of leaves."""
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf)
    return frontier.root


def inclusion_path(index: int, size: int) -> list[Span]:
    """Return the subtrees whose roots lead from a leaf to the root, the nearest first."""
    start, stop = 0, size
    path = []
    while stop - start > 1:
        middle = start + _left(stop - start)
        if index < middle:
            path.append((middle, stop))
            stop = middle
        else:
            path.append((start, middle))
            start = middle
    return path[::-1]


def _left(size: int) -> int:
    """Return how many leaves stand on the left: the largest power of two below the size."""
    return 1 << (size - 1).bit_length() - 1
