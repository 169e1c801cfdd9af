"""The network of learned policies, in NumPy float32: ReLU layers, an optional GRU and a head.

`shapes` defines its parameters, for serving and for training.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import Float32Array

Parameters = Mapping[str, Float32Array]

# Nodes at once. Intermediate results of this size stay in the cache: 10,000 nodes take 23 ms on
# one core, 24 in tiles half as large, and 42 as one tile.
TILE = 512


@dataclass(frozen=True)
class Architecture:
    inputs: int
    features: tuple[int, ...] = (128, 128)  # units of each ReLU layer
    recurrent: int = 0  # units of the GRU; 0 for none
    head: Literal["plain", "dueling"] = "plain"
    outputs: int = GRID.size

    def __post_init__(self) -> None:
        if min(self.inputs, *self.features, self.outputs) < 1 or self.recurrent < 0:
            raise InputError("each layer of a network needs at least one unit")


def shapes(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter by its name; weights are (in, out)."""
    shapes_by_name: dict[str, tuple[int, ...]] = {}

    def layer(name: str, inputs: int, outputs: int) -> int:
        shapes_by_name[f"{name}.weight"] = (inputs, outputs)
        shapes_by_name[f"{name}.bias"] = (outputs,)
        return outputs

    width = architecture.inputs
    for index, units in enumerate(architecture.features):
        width = layer(f"features.{index}", width, units)
    if architecture.recurrent:
        gates = 3 * architecture.recurrent  # reset, update, candidate
        layer("gru.input", width, gates)
        layer("gru.hidden", architecture.recurrent, gates)
        width = architecture.recurrent
    if architecture.head == "dueling":
        layer("value", width, 1)
        layer("advantage", width, architecture.outputs)
    else:
        layer("action", width, architecture.outputs)
    return shapes_by_name


def fold_dueling_head(
    architecture: Architecture, parameters: Parameters
) -> tuple[Architecture, Parameters]:
    """Return the same function with a plain head that combines value and advantage."""
    if architecture.head == "plain":
        return architecture, parameters
    folded = {k: v for k, v in parameters.items() if not k.startswith(("value.", "advantage."))}
    for part in ("weight", "bias"):
        advantage = parameters[f"advantage.{part}"]
        mean = advantage.sum(axis=-1, keepdims=True) / architecture.outputs
        folded[f"action.{part}"] = advantage - mean + parameters[f"value.{part}"]
    return replace(architecture, head="plain"), folded


def forward(
    architecture: Architecture, parameters: Parameters, inputs: Float32Array, hidden: Float32Array
) -> tuple[Float32Array, Float32Array]:
    """Return the outputs (batch, outputs) and the hidden state after them (batch, recurrent)."""
    outputs = np.empty((len(inputs), architecture.outputs), np.float32)
    after = np.empty_like(hidden)
    # Comparing with an array of zeros uses vector instructions, in a quarter of a scalar's time.
    zeros = np.zeros((min(TILE, len(inputs)), max(architecture.features, default=0)), np.float32)
    for first in range(0, len(inputs), TILE):
        rows = slice(first, first + TILE)
        hidden_layer = inputs[rows]
        for index in range(len(architecture.features)):
            hidden_layer = _layer(parameters, f"features.{index}", hidden_layer)
            np.maximum(
                hidden_layer, zeros[: len(hidden_layer), : hidden_layer.shape[1]], out=hidden_layer
            )
        if architecture.recurrent:
            hidden_layer = _gru(parameters, hidden_layer, hidden[rows], after[rows])
        _head(architecture, parameters, hidden_layer, outputs[rows])
    return outputs, after


def _layer(
    parameters: Parameters, name: str, inputs: Float32Array, out: Float32Array | None = None
) -> Float32Array:
    outputs: Float32Array = np.matmul(inputs, parameters[f"{name}.weight"], out=out)
    outputs += parameters[f"{name}.bias"]
    return outputs


def _gru(
    parameters: Parameters, inputs: Float32Array, hidden: Float32Array, after: Float32Array
) -> Float32Array:
    """Fill in the next hidden state by PyTorch's equations, which reset after the product."""
    units = hidden.shape[1]
    input_gates = _layer(parameters, "gru.input", inputs)
    hidden_gates = _layer(parameters, "gru.hidden", hidden)
    # Contiguous arrays are faster than columns of a larger one: 25 ms against 29 in all.
    gates = input_gates[:, : 2 * units] + hidden_gates[:, : 2 * units]
    # The sigmoid by tanh, which can't overflow.
    gates *= 0.5
    np.tanh(gates, out=gates)
    gates *= 0.5
    gates += 0.5
    reset, update = gates[:, :units], gates[:, units:]
    candidate = hidden_gates[:, 2 * units :] * reset
    candidate += input_gates[:, 2 * units :]
    np.tanh(candidate, out=candidate)
    np.subtract(hidden, candidate, out=after)
    after *= update
    after += candidate
    return after


def _head(
    architecture: Architecture, parameters: Parameters, inputs: Float32Array, outputs: Float32Array
) -> None:
    if architecture.head == "plain":
        _layer(parameters, "action", inputs, outputs)
        return
    _layer(parameters, "advantage", inputs, outputs)
    outputs -= outputs.sum(axis=1, keepdims=True) / architecture.outputs
    outputs += _layer(parameters, "value", inputs)
