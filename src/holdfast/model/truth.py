"""What only a simulation knows about its nodes, and only privileged references may see."""

from dataclasses import dataclass

from holdfast.model.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class Truth:
    malicious: BoolArray
    corrupted: IntArray
