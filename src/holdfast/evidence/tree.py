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
            return root_of([leaves[each] for each in range(start, stop)])
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


def consistency_path(old: int, size: int) -> list[Span]:
    """Return the subtrees whose roots show that the tree of `old` leaves begins that of `size`."""
    start, stop = 0, size
    path = []
    while stop != old:
        middle = start + _left(stop - start)
        if old <= middle:
            path.append((middle, stop))
            stop = middle
        else:
            path.append((start, middle))
            start = middle
    if start:
        path.append((start, stop))  # else it is the old root, which the verifier has
    return path[::-1]


def inclusion_proof(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    return [root_of(leaves[start:stop]) for start, stop in inclusion_path(index, len(leaves))]


def consistency_proof(old: int, leaves: Sequence[bytes]) -> list[bytes]:
    if old == 0:
        return []
    return [root_of(leaves[start:stop]) for start, stop in consistency_path(old, len(leaves))]


def includes(root: bytes, size: int, leaf: bytes, index: int, proof: Sequence[bytes]) -> bool:
    """Return whether the proof leads from the hash of leaf `index` to the root (2.1.3.2)."""
    if not 0 <= index < size:
        return False
    place, last = index, size - 1
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            leaf = node_hash(sibling, leaf)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            leaf = node_hash(leaf, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and leaf == root


def extends(old_root: bytes, old: int, root: bytes, size: int, proof: Sequence[bytes]) -> bool:
    """Return whether the proof shows that the new tree begins with the old one (2.1.4.2)."""
    if not 0 <= old <= size:
        return False
    if old in {0, size}:
        return not proof and old_root == (root if old else EMPTY)
    hashes = list(proof)
    if old.bit_count() == 1:
        hashes.insert(0, old_root)
    if not hashes:
        return False
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            second = node_hash(second, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and (first, second) == (old_root, root)


def _left(size: int) -> int:
    """Return how many leaves stand on the left: the largest power of two below the size."""
    return 1 << (size - 1).bit_length() - 1
