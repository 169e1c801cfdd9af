"""The hidden truth about nodes, which only simulations know and only reference policies see."""

from dataclasses import dataclass

from holdfast.model.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class Truth:
    malicious: BoolArray
    corrupted: IntArray
