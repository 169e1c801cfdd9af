"""The network of `policy.network` in JAX, over whole sequences, and its first weights."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.model.arrays import Float32Array
from holdfast.policy.network import Architecture, shapes

Weights = dict[str, Array]

# Moments up to which a sequence is compiled without a loop: an update on 9 of them takes 2.5 ms
# instead of 3.2. Longer ones would take longer to compile than they gain.
SHORT = 16


def initial_weights(architecture: Architecture, draws: np.random.Generator) -> Weights:
    """Return weights and biases drawn from +-1/sqrt(fan in), as PyTorch draws them."""
    found = {}
    fan_in = 1
    for name, shape in shapes(architecture).items():
        if name.startswith("gru"):
            fan_in = architecture.recurrent
        elif name.endswith("weight"):
            fan_in = shape[0]
        bound = fan_in**-0.5
        found[name] = jnp.asarray(draws.uniform(-bound, bound, shape), jnp.float32)
    return found


def served(weights: Mapping[str, Array]) -> dict[str, Float32Array]:
    """Return the weights as NumPy has them, to decide with."""
    return {name: np.asarray(array) for name, array in weights.items()}


def outputs(architecture: Architecture, weights: Mapping[str, Array], inputs: Array) -> Array:
    """Return the outputs of a network without recurrence; `inputs` may have any leading axes."""
    return head(architecture, weights, features(architecture, weights, inputs))


def unrolled(
    architecture: Architecture,
    weights: Mapping[str, Array],
    inputs: Array,
    hidden: Array,
    fresh: Array | None = None,
) -> Array:
    """Return the outputs along sequences, (time, batch, outputs), from the first hidden state.

    Where `fresh` (time, batch) is true, a new episode begins and the state is zero again.
    """
    seen = _layer(weights, "gru.input", features(architecture, weights, inputs))

    def step(state: Array, now: tuple[Array, Array | None]) -> tuple[Array, Array]:
        gates, begins = now
        if begins is not None:
            state = jnp.where(begins[:, None], 0.0, state)
        state = _gru(weights, gates, state)
        return state, state

    _, states = jax.lax.scan(step, hidden, (seen, fresh), unroll=len(seen) <= SHORT)
    return head(architecture, weights, states)


def features(architecture: Architecture, weights: Mapping[str, Array], seen: Array) -> Array:
    for index in range(len(architecture.features)):
        seen = jax.nn.relu(_layer(weights, f"features.{index}", seen))
    return seen


def _gru(weights: Mapping[str, Array], seen: Array, state: Array) -> Array:
    units = state.shape[-1]
    kept = _layer(weights, "gru.hidden", state)
    gates = jax.nn.sigmoid(seen[:, : 2 * units] + kept[:, : 2 * units])
    reset, update = gates[:, :units], gates[:, units:]
    candidate = jnp.tanh(seen[:, 2 * units :] + reset * kept[:, 2 * units :])
    return candidate + update * (state - candidate)


def head(architecture: Architecture, weights: Mapping[str, Array], seen: Array) -> Array:
    if architecture.head == "plain":
        return _layer(weights, "action", seen)
    advantage = _layer(weights, "advantage", seen)
    centred = advantage - advantage.mean(axis=-1, keepdims=True)
    return _layer(weights, "value", seen) + centred


def _layer(weights: Mapping[str, Array], name: str, inputs: Array) -> Array:
    return inputs @ weights[f"{name}.weight"] + weights[f"{name}.bias"]
