"""The verifier's side of a proof of inclusion, as RFC 9162 has it."""

from collections.abc import Sequence

from holdfast.evidence.tree import node_hash


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
