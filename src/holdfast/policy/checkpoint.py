"""Checkpoints: a folder with the weights of a learned policy and a manifest that explains them.

Nothing is trusted: `load` and `parse` reject whatever `save` would not have written.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from holdfast import atomic
from holdfast.errors import InputError, MalformedError, StorageError
from holdfast.model.action import GRID, ActionGrid
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.policy import json_schema
from holdfast.policy.dial import ValidatedDial, choose_dial, dial_by_number
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.learned import Inputs, Learned
from holdfast.policy.network import Architecture, Parameters, shapes

FORMAT = 1
WEIGHTS = "policy.safetensors"
MANIFEST = "manifest.json"
MAX_BYTES = 16 << 20  # of either file; a GRU of 128 units takes half a MiB


@dataclass(frozen=True)
class Default:
    """The ceilings a dial is set for if the user names none."""

    rho: float
    latency: float | None

    def __post_init__(self) -> None:
        self.ceilings()  # raises an error for what is no ceiling

    def ceilings(self) -> Ceilings:
        return Ceilings(self.rho, self.latency)


@dataclass(frozen=True)
class Manifest:
    """Where a policy comes from, which inputs it expects and what it achieved."""

    method: str
    scenario: Scenario
    architecture: Architecture
    inputs: Inputs
    rho: float | None  # the ceiling it was trained for
    multiplier: float | None  # the lambda that training ended with
    seed: int
    training: dict[str, Any]  # episodes, steps, options
    envelope: dict[str, tuple[float, float]]  # of each signal, as seen in training
    evaluation: dict[str, Any]  # the report
    code_version: str
    dials: tuple[ValidatedDial, ...] = ()
    default: Default | None = None
    observation: tuple[str, ...] = OBSERVATION
    actions: ActionGrid = GRID
    format: int = FORMAT
    sha256: str = ""  # of the weights; `save` enters it

    def __post_init__(self) -> None:
        if self.observation != OBSERVATION:
            raise InputError(f"it expects other observations than {', '.join(OBSERVATION)}")
        if self.actions != GRID:
            raise InputError("it chooses from another grid of actions")
        if self.architecture.inputs != self.inputs.size or self.architecture.outputs != GRID.size:
            raise InputError("its network does not fit the observations and actions")
        if self.envelope.keys() != set(OBSERVATION):
            raise InputError("its envelope does not name the signals of an observation")
        for signal, (low, high) in self.envelope.items():
            if low > high:
                raise InputError(f"its envelope of {signal} ends before it begins")
            if not 0 <= low <= high <= 1:  # false for NaN as well
                raise InputError(
                    f"its envelope of {signal} reaches from {low:g} to {high:g}: "
                    "a signal lies between 0 and 1"
                )
        if self.rho is not None:
            Ceilings(self.rho)  # raises an error for what is no ceiling
        if not self.inputs.dial and (self.dials or self.default):
            raise InputError("its network sees no dial, so it can have no dials and no default")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    manifest: Manifest
    parameters: Parameters

    def policy(self, setting: Ceilings | int | None = None) -> Learned:
        """Return the policy, its dial set for ceilings (else the default's) or by its number."""
        manifest = self.manifest
        dial = None
        if manifest.inputs.dial:
            if setting is None and manifest.default:
                setting = manifest.default.ceilings()
            if setting is None:
                raise InputError("its dial has no default: say which miss rate rho to stay below")
            dial = (
                choose_dial(manifest.dials, setting)
                if isinstance(setting, Ceilings)
                else dial_by_number(manifest.dials, setting)
            )
        elif setting is not None:
            raise InputError("it has no dial to set: it takes no options")
        return Learned(manifest.architecture, self.parameters, manifest.inputs, dial)


def save(folder: Path, manifest: Manifest, parameters: Parameters) -> None:
    """Write a checkpoint; the manifest comes last, so that `load` rejects an interrupted write."""
    _check(manifest.architecture, parameters)
    # The library writes an array's memory as it is, whatever its strides.
    arrays = {name: np.ascontiguousarray(array) for name, array in sorted(parameters.items())}
    weights = safetensors.numpy.save(arrays)
    content = json_schema.dump(replace(manifest, sha256=hashlib.sha256(weights).hexdigest()))
    content = json_schema.dump(_manifest(content))  # as it will be read: 1 becomes 1.0 in floats
    write(folder, content, weights)


def write(folder: Path, manifest: bytes, weights: bytes) -> None:
    """Write what `read` returns."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make the folder {folder}: {error.strerror}") from error
    atomic.write(folder / WEIGHTS, weights)
    atomic.write(folder / MANIFEST, manifest)


def load(folder: Path) -> Checkpoint:
    """Return the checkpoint, or raise an error that says what is wrong with it."""
    return parse(*read(folder), f"{folder}/")


def read(folder: Path) -> tuple[bytes, bytes]:
    """Return the bytes of manifest and weights, unchecked."""
    manifest, weights = (
        atomic.read(folder / name, at_most=MAX_BYTES) for name in (MANIFEST, WEIGHTS)
    )
    return manifest, weights


def parse(content: bytes, weights: bytes, where: str = "") -> Checkpoint:
    """Return the checkpoint that these bytes hold; `where` begins the names of its files."""
    with _naming_file(f"{where}{MANIFEST}"):
        manifest = _manifest(content)
    with _naming_file(f"{where}{WEIGHTS}"):
        return Checkpoint(manifest, _parameters(manifest, weights))


@contextmanager
def _naming_file(file: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise MalformedError(f"{file} can't be used: {error}") from error


def _manifest(content: bytes) -> Manifest:
    fields = json_schema.parse(content)
    if fields.get("format") != FORMAT:
        raise MalformedError(f"it is not in format {FORMAT}, the one this Holdfast reads")
    return json_schema.read(Manifest, fields)


def _parameters(manifest: Manifest, weights: bytes) -> Parameters:
    if hashlib.sha256(weights).hexdigest() != manifest.sha256:
        raise MalformedError("its SHA-256 is not the one in the manifest")
    try:
        parameters: Parameters = safetensors.numpy.load(weights)
    except (SafetensorError, KeyError, ValueError) as error:
        raise MalformedError("it is not in the safetensors format") from error
    _check(manifest.architecture, parameters)
    return parameters


def _check(architecture: Architecture, parameters: Parameters) -> None:
    expected = shapes(architecture)
    for name in sorted(expected.keys() ^ parameters.keys()):
        reason = "is missing" if name in expected else "is no part of the network"
        raise MalformedError(f"the parameter {name!r} {reason}")
    for name, array in parameters.items():
        if array.dtype != np.float32 or array.shape != expected[name]:
            raise MalformedError(f"the parameter {name} is not float32 {expected[name]}")
        if not np.isfinite(array).all():
            raise MalformedError(f"the parameter {name} is not finite throughout")
