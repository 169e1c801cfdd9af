"""A policy as operation needs it: with a version, an envelope, and states that can be stored."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError
from holdfast.model.arrays import BoolArray, Float32Array, FloatArray, IntArray, mapped
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.policy import json_schema
from holdfast.policy.checkpoint import Checkpoint, Manifest, load
from holdfast.policy.interface import Policy
from holdfast.policy.registry import PLANNED, ceiling_named, place_of, policy_named, set_dial

Rows = NDArray[np.uint8]
Observations = Float32Array | FloatArray
Envelope = Mapping[str, tuple[float, float]]  # the bounds of every signal

# Signals are float32 sums of what training summed in another order.
SLACK = 1e-6


@dataclass(frozen=True, eq=False)
class Serving:
    """A policy that decides; two of one version decide alike."""

    name: str
    version: str  # SHA-256, in hexadecimal
    policy: Policy[Any]
    low: Float32Array  # of each signal, as met in training
    high: Float32Array
    rho: float | None = None  # the ceiling on the miss rate that it was made for
    manifest: Manifest | None = None  # of a learned one: claims, until promotion measures them

    def inside(self, observations: Observations) -> BoolArray:
        """Return whether each observation lies in the envelope of the training."""
        within = (observations >= self.low - SLACK) & (observations <= self.high + SLACK)
        return np.asarray(within.all(axis=1), np.bool_)

    def narrowed(self, envelope: Envelope) -> "Serving":
        """Return the policy with an envelope that reaches no further than this one."""
        low, high = np.array([envelope[signal] for signal in OBSERVATION], np.float32).T
        return replace(self, low=np.maximum(self.low, low), high=np.minimum(self.high, high))

    def fresh_rows(self, batch: int) -> Rows:
        """Return the states of nodes about which nothing is known yet, as bytes."""
        return to_rows(self.policy.initial_state(batch), batch)

    def act(self, rows: Rows, observations: Observations) -> tuple[IntArray, Any]:
        act: Any = self.policy.act  # whichever precision it names, it takes either
        chosen, state = act(self._state(rows), observations)
        return chosen, state

    def executed(self, state: Any, actions: IntArray) -> Rows:
        """Return the states after these actions took the place of those chosen, as bytes."""
        correct = getattr(self.policy, "executed", None)
        return to_rows(correct(state, actions) if correct else state, len(actions))

    @property
    def row_bytes(self) -> int:
        return int(self.fresh_rows(1).shape[1])

    def _state(self, rows: Rows) -> Any:
        return from_rows(rows, self.policy.initial_state(1))


def serving(name: str, scenario: Scenario) -> Serving:
    """Return the policy of that name, which must not need what only a simulation knows."""
    place = place_of(name, scenario)
    if place is not None:
        return learned(name, place.options, load(place.folder))
    policy = policy_named(name, scenario)
    if policy.privileged:
        raise InputError(f"policy {name} knows what nobody can observe: it can't be served")
    options = name.partition(":")[2]
    # It was not trained, so nothing lies outside of its training.
    low, high = np.zeros(len(OBSERVATION), np.float32), np.ones(len(OBSERVATION), np.float32)
    version = _hash(name, options, scenario)
    rho = ceiling_named(name, options) if name.partition(":")[0] in PLANNED else None
    return Serving(name, version, policy, low, high, rho)


def learned(name: str, options: str, checkpoint: Checkpoint) -> Serving:
    """Return a checkpoint's policy, its dial set as the options say; the name is but a name."""
    manifest = checkpoint.manifest
    ends = [manifest.envelope[signal] for signal in OBSERVATION]
    low, high = np.array(ends, np.float32).T
    rho = ceiling_named(name, options) if options else None
    if rho is None:
        rho = manifest.default.rho if manifest.default else manifest.rho
    policy = set_dial(name, checkpoint, options)
    return Serving(name, _hash("", options, manifest), policy, low, high, rho, manifest)


def _hash(kind: str, options: str, what: Scenario | Manifest) -> str:
    """Return a hash of all that decisions depend on: weights and options, or rule and world."""
    parts = (kind.encode(), options.encode(), json_schema.dump(what))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def to_rows(state: Any, batch: int) -> Rows:
    """Return a state's arrays side by side, one row of bytes a node."""
    parts: list[Rows] = []

    def lay(array: NDArray[Any]) -> None:
        width = array[:1].nbytes
        if width:
            parts.append(np.ascontiguousarray(array).view(np.uint8).reshape(batch, width))

    mapped(lay, state)
    if len(parts) == 1:  # as most have it; a copy of 10,000 states would take 2 ms of page faults
        return parts[0]
    return np.concatenate([np.empty((batch, 0), np.uint8), *parts], axis=1)


def from_rows(rows: Rows, like: Any) -> Any:
    """Return the state that `to_rows` wrote; `like` is a state of the same policy."""
    at = 0

    def cut(array: NDArray[Any]) -> NDArray[Any]:
        nonlocal at
        shape = array.shape[1:]
        width = array[:1].nbytes
        part = np.ascontiguousarray(rows[:, at : at + width])
        at += width
        return part.view(array.dtype).reshape(len(rows), *shape)

    return mapped(cut, like)
