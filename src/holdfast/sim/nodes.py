"""The state of simulated nodes."""

from dataclasses import dataclass

from holdfast.model.arrays import BoolArray, FloatArray, IntArray
from holdfast.model.observation import History
from holdfast.model.truth import Truth


@dataclass(frozen=True)
class Nodes:
    """The hidden state of each node, and the history a scheduler may observe."""

    time: IntArray
    malicious: BoolArray
    corrupted: IntArray
    honest_rate: FloatArray
    malicious_rate: FloatArray
    bursting: BoolArray
    quiet: IntArray  # units since the last detection
    load: FloatArray
    history: History

    @property
    def truth(self) -> Truth:
        return Truth(self.malicious, self.corrupted)
