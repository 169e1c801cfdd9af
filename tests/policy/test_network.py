"""The network computes what its equations say, for any number of nodes at once."""

import math
from typing import Any

import numpy as np
import pytest
from tests.support.checkpoints import random_weights

from holdfast.errors import InputError
from holdfast.policy.network import TILE, Architecture, fold_dueling_head, forward, shapes

ARCHITECTURES = [
    Architecture(5),
    Architecture(5, features=()),
    Architecture(9, features=(7,), head="dueling"),
    Architecture(9, features=(7, 6), recurrent=4),
    Architecture(24, features=(128, 128), recurrent=128, head="dueling"),
]


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def by_hand(
    architecture: Architecture, parameters: dict[str, Any], inputs: Any, hidden: Any
) -> tuple[list[float], list[float]]:
    """Return the outputs and the hidden state of one node, one number after the other."""

    def layer(name: str, values: list[float]) -> list[float]:
        weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
        return [
            float(bias[j]) + sum(float(weight[i, j]) * value for i, value in enumerate(values))
            for j in range(len(bias))
        ]

    values, memory = [float(x) for x in inputs], [float(h) for h in hidden]
    for index in range(len(architecture.features)):
        values = [max(value, 0.0) for value in layer(f"features.{index}", values)]
    if units := architecture.recurrent:
        x, h = layer("gru.input", values), layer("gru.hidden", memory)
        for j, old in enumerate(list(memory)):
            reset, update = sigmoid(x[j] + h[j]), sigmoid(x[units + j] + h[units + j])
            candidate = math.tanh(x[2 * units + j] + reset * h[2 * units + j])
            memory[j] = (1 - update) * candidate + update * old
        values = memory
    if architecture.head == "plain":
        return layer("action", values), memory
    advantage, (value,) = layer("advantage", values), layer("value", values)
    mean = sum(advantage) / len(advantage)
    return [value + a - mean for a in advantage], memory


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_network_agrees_with_its_equations_in_double_precision(
    architecture: Architecture,
) -> None:
    rng = np.random.default_rng(1)
    parameters = random_weights(architecture)
    inputs = rng.random((3, architecture.inputs), np.float32)
    hidden = rng.uniform(-1, 1, (3, architecture.recurrent)).astype(np.float32)
    outputs, after = forward(architecture, parameters, inputs, hidden)
    assert outputs.dtype == after.dtype == np.float32
    for node in range(3):
        expected, memory = by_hand(architecture, parameters, inputs[node], hidden[node])
        np.testing.assert_allclose(outputs[node], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(after[node], memory, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_many_nodes_at_once_get_what_each_gets_alone(architecture: Architecture) -> None:
    rng = np.random.default_rng(2)
    parameters = random_weights(architecture)
    batch = 2 * TILE + 3
    inputs = rng.random((batch, architecture.inputs), np.float32)
    hidden = rng.uniform(-1, 1, (batch, architecture.recurrent)).astype(np.float32)
    before = inputs.copy(), hidden.copy()
    outputs, after = forward(architecture, parameters, inputs, hidden)
    for node in (0, 1, TILE - 1, TILE, 2 * TILE, batch - 1):
        some = slice(node, node + 1)
        alone, memory = forward(architecture, parameters, inputs[some], hidden[some])
        np.testing.assert_allclose(outputs[some], alone, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(after[some], memory, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(inputs, before[0])
    np.testing.assert_array_equal(hidden, before[1], "what is given stays as it was")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_plain_head_gives_what_value_and_advantage_give(architecture: Architecture) -> None:
    rng = np.random.default_rng(3)
    parameters = random_weights(architecture)
    inputs = rng.random((3, architecture.inputs), np.float32)
    hidden = rng.uniform(-1, 1, (3, architecture.recurrent)).astype(np.float32)
    outputs, after = forward(architecture, parameters, inputs, hidden)
    simple, folded = fold_dueling_head(architecture, parameters)
    assert {name: value.shape for name, value in folded.items()} == shapes(simple)
    assert simple.head == "plain"
    again, memory = forward(simple, folded, inputs, hidden)
    np.testing.assert_allclose(again, outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(memory, after)


def test_no_nodes_are_decided_too() -> None:
    architecture = Architecture(5, recurrent=3)
    empty = np.empty((0, 5), np.float32), np.empty((0, 3), np.float32)
    outputs, after = forward(architecture, random_weights(architecture), *empty)
    assert (outputs.shape, after.shape) == ((0, 25), (0, 3))


def test_gates_far_from_zero_saturate_in_silence() -> None:
    architecture = Architecture(1, features=(), recurrent=1)
    parameters = random_weights(architecture)
    parameters["gru.input.weight"][:] = 1e30
    inputs = np.array([[1.0], [-1.0]], np.float32)
    _, after = forward(architecture, parameters, inputs, np.full((2, 1), 0.5, np.float32))
    # The update gate keeps all of the past, or takes on all of the candidate.
    assert after.tolist() == [[0.5], [-1.0]]


def test_every_parameter_has_one_name_and_one_shape() -> None:
    assert shapes(Architecture(9, features=(8,), recurrent=4, head="dueling")) == {
        "features.0.weight": (9, 8),
        "features.0.bias": (8,),
        "gru.input.weight": (8, 12),
        "gru.input.bias": (12,),
        "gru.hidden.weight": (4, 12),
        "gru.hidden.bias": (12,),
        "value.weight": (4, 1),
        "value.bias": (1,),
        "advantage.weight": (4, 25),
        "advantage.bias": (25,),
    }
    assert list(shapes(Architecture(5, features=())).values()) == [(5, 25), (25,)]


@pytest.mark.parametrize(
    "wrong", [{"inputs": 0}, {"features": (8, 0)}, {"recurrent": -1}, {"outputs": 0}]
)
def test_a_network_with_an_empty_layer_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="at least one unit"):
        Architecture(**{"inputs": 5, **wrong})
