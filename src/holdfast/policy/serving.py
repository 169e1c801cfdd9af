"""A policy ready for operation: with a version, an envelope, and states stored as bytes."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError
from holdfast.model.arrays import BoolArray, Float32Array, FloatArray, IntArray, map_arrays
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.policy import json_schema
from holdfast.policy.checkpoint import Checkpoint, Manifest, load
from holdfast.policy.interface import Policy
from holdfast.policy.plugins import digest_of
from holdfast.policy.registry import (
    PLANNED,
    ceiling_named,
    is_plugin,
    locate,
    policy_named,
    set_dial,
)

Rows = NDArray[np.uint8]
Observations = Float32Array | FloatArray
Envelope = Mapping[str, tuple[float, float]]  # the bounds of every signal

# Signals are float32 sums; training may have added in another order.
SLACK = 1e-6


@dataclass(frozen=True, eq=False)
class Serving:
    """A policy that decides; two with the same version decide alike."""

    name: str
    version: str  # SHA-256, in hexadecimal
    policy: Policy[Any]
    low: Float32Array  # of each signal in training
    high: Float32Array
    rho: float | None = None  # the ceiling on the miss rate that it was made for
    manifest: Manifest | None = None  # of a learned policy: claims, until promotion measures them
    plugin: bool = False  # its code is not ours

    def in_envelope(self, observations: Observations) -> BoolArray:
        """Return whether each observation lies in the training's envelope."""
        is_inside = (observations >= self.low - SLACK) & (observations <= self.high + SLACK)
        return np.asarray(is_inside.all(axis=1), np.bool_)

    def restrict_envelope(self, envelope: Envelope) -> "Serving":
        """Return the policy with its envelope cut to this one."""
        low, high = np.array([envelope[signal] for signal in OBSERVATION], np.float32).T
        return replace(self, low=np.maximum(self.low, low), high=np.minimum(self.high, high))

    def fresh_rows(self, batch: int) -> Rows:
        """Return the states of nodes about which nothing is known yet, as bytes."""
        return to_rows(self.policy.initial_state(batch), batch)

    def act(self, rows: Rows, observations: Observations) -> tuple[IntArray, Any]:
        act: Any = self.policy.act  # it accepts float32 and float64
        chosen, state = act(self._state(rows), observations)
        return chosen, state

    def replace_actions(self, state: Any, actions: IntArray) -> Rows:
        """Return the states after these actions replaced the chosen ones, as bytes."""
        correct = getattr(self.policy, "replace_actions", None)
        return to_rows(correct(state, actions) if correct else state, len(actions))

    @property
    def row_bytes(self) -> int:
        return int(self.fresh_rows(1).shape[1])

    def _state(self, rows: Rows) -> Any:
        return from_rows(rows, self.policy.initial_state(1))


def load_serving(name: str, scenario: Scenario, *, with_plugins: bool = False) -> Serving:
    """Return the policy with this name; one that needs hidden state raises an error.

    A plug-in is not run unless `with_plugins`: its code would have all rights of this process.
    """
    location = locate(name, scenario)
    if location is not None:
        return serve_checkpoint(name, location.options, load(location.folder))
    foreign = is_plugin(name)
    if foreign and not with_plugins:
        raise InputError(
            f"policy {name} is a plug-in: it can run in shadow only, and only with"
            " allow_plugins = true in [control]"
        )
    policy: Any = policy_named(name, scenario)
    if getattr(policy, "privileged", False):
        raise InputError(f"policy {name} needs hidden state: it can't be served")
    options = digest_of(name) if foreign else name.partition(":")[2]
    # Without training, nothing lies outside the envelope.
    low, high = np.zeros(len(OBSERVATION), np.float32), np.ones(len(OBSERVATION), np.float32)
    version = _version(name, options, scenario)
    rho = ceiling_named(name, options) if name.partition(":")[0] in PLANNED else None
    return Serving(name, version, policy, low, high, rho, plugin=foreign)


def serve_checkpoint(name: str, options: str, checkpoint: Checkpoint) -> Serving:
    """Return a checkpoint's policy with its dial set by the options; `name` is only a label."""
    manifest = checkpoint.manifest
    bounds = [manifest.envelope[signal] for signal in OBSERVATION]
    low, high = np.array(bounds, np.float32).T
    rho = ceiling_named(name, options) if options else None
    if rho is None:
        rho = manifest.default.rho if manifest.default else manifest.rho
    policy = set_dial(name, checkpoint, options)
    return Serving(name, _version("", options, manifest), policy, low, high, rho, manifest)


def _version(kind: str, options: str, what: Scenario | Manifest) -> str:
    """Return a hash of all that decisions depend on: weights and options, or rule and scenario."""
    parts = (kind.encode(), options.encode(), json_schema.dump(what))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def to_rows(state: Any, batch: int) -> Rows:
    """Return a state's arrays side by side, one row of bytes per node."""
    parts: list[Rows] = []

    def append_part(array: NDArray[Any]) -> None:
        width = array[:1].nbytes
        if width:
            parts.append(np.ascontiguousarray(array).view(np.uint8).reshape(batch, width))

    map_arrays(append_part, state)
    if len(parts) == 1:  # the usual case; a copy of 10,000 states takes 2 ms of page faults
        return parts[0]
    return np.concatenate([np.empty((batch, 0), np.uint8), *parts], axis=1)


def from_rows(rows: Rows, like: Any) -> Any:
    """Return the state that `to_rows` wrote; `like` is a state of the same policy."""
    offset = 0

    def take_part(array: NDArray[Any]) -> NDArray[Any]:
        nonlocal offset
        shape = array.shape[1:]
        width = array[:1].nbytes
        part = np.ascontiguousarray(rows[:, offset : offset + width])
        offset += width
        return part.view(array.dtype).reshape(len(rows), *shape)

    return map_arrays(take_part, like)
