"""The network of `policy.network` in JAX, with initial weights and one gradient step."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from holdfast.model.arrays import Float32Array
from holdfast.policy.network import Architecture, shapes

Weights = dict[str, Array]

# Sequences up to this length are compiled without a loop: an update on 9 steps takes 2.5 ms
# instead of 3.2. Longer ones would take longer to compile than they gain.
MAX_UNROLLED_STEPS = 16


def initial_weights(architecture: Architecture, rng: np.random.Generator) -> Weights:
    """Return weights and biases drawn from +-1/sqrt(fan in), as PyTorch draws them."""
    weights = {}
    fan_in = 1
    for name, shape in shapes(architecture).items():
        if name.startswith("gru"):
            fan_in = architecture.recurrent
        elif name.endswith("weight"):
            fan_in = shape[0]
        bound = fan_in**-0.5
        weights[name] = jnp.asarray(rng.uniform(-bound, bound, shape), jnp.float32)
    return weights


def gradient_step(
    optimiser: optax.GradientTransformation,
    loss: Callable[[Weights], Array],
    weights: Weights,
    optimiser_state: optax.OptState,
) -> tuple[tuple[Weights, optax.OptState], Array]:
    """Return weights and optimiser state after one step down the gradient, and the loss before."""
    value, gradient = jax.value_and_grad(loss)(weights)
    updates, optimiser_state = optimiser.update(gradient, optimiser_state)
    return (optax.apply_updates(weights, updates), optimiser_state), value


def to_numpy(weights: Mapping[str, Array]) -> dict[str, Float32Array]:
    """Return the weights as NumPy arrays, for selecting actions."""
    return {name: np.asarray(array) for name, array in weights.items()}


def forward(architecture: Architecture, weights: Mapping[str, Array], inputs: Array) -> Array:
    """Return the outputs of a network without recurrence; `inputs` may have any leading axes."""
    return head(architecture, weights, features(architecture, weights, inputs))


def unroll(
    architecture: Architecture,
    weights: Mapping[str, Array],
    inputs: Array,
    hidden: Array,
    episode_starts: Array | None = None,
) -> Array:
    """Return the outputs along sequences, (time, batch, outputs), from the first hidden state."""
    states = hidden_states(architecture, weights, inputs, hidden, episode_starts)
    return head(architecture, weights, states)


def hidden_states(
    architecture: Architecture,
    weights: Mapping[str, Array],
    inputs: Array,
    hidden: Array,
    episode_starts: Array | None = None,
) -> Array:
    """Return the hidden states along sequences, (time, batch, units), from the first one.

    Where `episode_starts` (time, batch) is true, the state is zero again.
    """
    input_gates = _layer(weights, "gru.input", features(architecture, weights, inputs))

    def step(state: Array, step_inputs: tuple[Array, Array | None]) -> tuple[Array, Array]:
        gates, starts = step_inputs
        if starts is not None:
            state = jnp.where(starts[:, None], 0.0, state)
        state = _gru(weights, gates, state)
        return state, state

    _, states = jax.lax.scan(
        step, hidden, (input_gates, episode_starts), unroll=len(input_gates) <= MAX_UNROLLED_STEPS
    )
    return states


def features(architecture: Architecture, weights: Mapping[str, Array], outputs: Array) -> Array:
    for index in range(len(architecture.features)):
        outputs = jax.nn.relu(_layer(weights, f"features.{index}", outputs))
    return outputs


def _gru(weights: Mapping[str, Array], input_gates: Array, state: Array) -> Array:
    units = state.shape[-1]
    hidden_gates = _layer(weights, "gru.hidden", state)
    gates = jax.nn.sigmoid(input_gates[:, : 2 * units] + hidden_gates[:, : 2 * units])
    reset, update = gates[:, :units], gates[:, units:]
    candidate = jnp.tanh(input_gates[:, 2 * units :] + reset * hidden_gates[:, 2 * units :])
    return candidate + update * (state - candidate)


def head(architecture: Architecture, weights: Mapping[str, Array], inputs: Array) -> Array:
    if architecture.head == "plain":
        return _layer(weights, "action", inputs)
    advantage = _layer(weights, "advantage", inputs)
    centred = advantage - advantage.mean(axis=-1, keepdims=True)
    return _layer(weights, "value", inputs) + centred


def _layer(weights: Mapping[str, Array], name: str, inputs: Array) -> Array:
    return inputs @ weights[f"{name}.weight"] + weights[f"{name}.bias"]
