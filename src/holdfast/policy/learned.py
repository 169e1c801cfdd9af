"""Learned policies: a network decides from the last observations and its recurrent state."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from holdfast.errors import InputError
from holdfast.model.arrays import Float32Array, FloatArray, IntArray
from holdfast.model.observation import OBSERVATION
from holdfast.policy import dial
from holdfast.policy.dial import Dial
from holdfast.policy.network import Architecture, Parameters, fold_dueling_head, forward


@dataclass(frozen=True)
class Inputs:
    """What the network sees."""

    masked: tuple[str, ...] = ()  # signals that are shown as 0
    frames: int = 1  # last observations that are inputs, newest first; zeros before the first
    dial: bool = False  # whether the signals of a dial follow, the same for all nodes

    def __post_init__(self) -> None:
        for name in self.masked:
            if name not in OBSERVATION:
                raise InputError(
                    f"there is no signal {name!r} to mask: they are {', '.join(OBSERVATION)}"
                )
        if self.frames < 1:
            raise InputError(f"a network sees at least one observation, not {self.frames}")

    @property
    def size(self) -> int:
        return self.frames * len(OBSERVATION) + self.dial * dial.SIGNALS


@dataclass(frozen=True, eq=False)
class Memory:
    hidden: Float32Array  # (batch, units of the GRU)
    older: Float32Array  # (batch, signals): the frames before the next one, newest first


@dataclass(frozen=True, eq=False)
class Learned:
    architecture: Architecture
    parameters: Parameters
    inputs: Inputs = Inputs()
    dial: Dial | None = None  # how the dial is set; None where the network has none
    privileged: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        if self.inputs.dial != (self.dial is not None):
            raise InputError("a learned policy needs a dial exactly where its network sees one")

    def initial_state(self, batch: int) -> Memory:
        older = (self.inputs.frames - 1) * len(OBSERVATION)
        return Memory(
            hidden=np.zeros((batch, self.architecture.recurrent), np.float32),
            older=np.zeros((batch, older), np.float32),
        )

    def act(self, state: Memory, observations: FloatArray) -> tuple[IntArray, Memory]:
        inputs = self._network_inputs(state, observations)
        q, hidden = forward(*self._folded, inputs, state.hidden)
        older = inputs[:, : state.older.shape[1]].copy()
        return q.argmax(axis=1), Memory(hidden, older)

    def _network_inputs(self, state: Memory, observations: FloatArray) -> Float32Array:
        inputs = np.empty((len(observations), self.inputs.size), np.float32)
        newest, framed = len(OBSERVATION), self.inputs.frames * len(OBSERVATION)
        inputs[:, :newest] = observations
        inputs[:, self._masked] = 0.0
        inputs[:, newest:framed] = state.older
        inputs[:, framed:] = self._signals
        return inputs

    @cached_property
    def _folded(self) -> tuple[Architecture, Parameters]:
        return fold_dueling_head(self.architecture, self.parameters)

    @cached_property
    def _masked(self) -> list[int]:
        return [OBSERVATION.index(name) for name in self.inputs.masked]

    @cached_property
    def _signals(self) -> Float32Array:
        return self.dial.signals() if self.dial else np.empty(0, np.float32)
