"""The interface of every policy, in simulation, in shadow and in production.

A state is an immutable value whose arrays have one row per node, so that nodes can be taken out
of a batch and put back. A policy whose state contains its last action also has `replace_actions`.
"""

from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray, IntArray
from holdfast.model.observation import OBSERVATION
from holdfast.model.truth import Truth

S = TypeVar("S")

FAILURES = OBSERVATION.index("consecutive_failures")


class Policy(Protocol[S]):
    """Decides from observations alone."""

    privileged: ClassVar[Literal[False]] = False

    def initial_state(self, batch: int, /) -> S:
        """Return the state of nodes about which nothing is known yet."""
        ...

    def act(self, state: S, observations: Any, /) -> tuple[IntArray, S]:
        """Return each node's action for its row of `observations`, and the state after it."""
        ...


class PrivilegedPolicy(Protocol[S]):
    """Decides with hidden state that only a simulation knows: a reference, never served."""

    privileged: ClassVar[Literal[True]] = True

    def initial_state(self, batch: int, /) -> S: ...

    def act(self, state: S, observations: Any, truth: Truth, /) -> tuple[IntArray, S]: ...


AnyPolicy = Policy[Any] | PrivilegedPolicy[Any]


def last_failed(observations: FloatArray) -> BoolArray:
    """Return whether each node's last audit failed; before the first it is False."""
    return np.asarray(observations[:, FAILURES] > 0, np.bool_)
