"""The targets that Q-networks are trained towards: one step ahead, or Q(lambda) on sequences."""

import jax.numpy as jnp
from jax import Array, lax


def next_q(target_q: Array, selecting_q: Array) -> Array:
    """Return the target network's value of the action with the highest `selecting_q`.

    Double Q-learning selects with the online network, plain DQN with the target network itself.
    """
    best = lax.stop_gradient(selecting_q).argmax(axis=-1, keepdims=True)
    return jnp.take_along_axis(target_q, best, axis=-1)[..., 0]


def td_target(rewards: Array, dones: Array, next_q: Array, discount: float) -> Array:
    """Return reward + discount * next Q-value; nothing follows the end of an episode."""
    return lax.stop_gradient(rewards + discount * jnp.where(dones, 0.0, next_q))


def q_lambda_targets(
    q: Array, rewards: Array, discounts: Array, continues: Array, trace_decay: float
) -> Array:
    """Return the targets of Q(lambda) along sequences; `q` has one step more than the rest.

    Where an episode does not continue, what follows is unknown and the target is `q` itself.
    """

    def backward(next_target: Array, step: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, discount, this_q, next_q, goes_on = step
        target = reward + discount * (next_q + trace_decay * (next_target - next_q))
        target = jnp.where(goes_on, target, this_q)
        return target, target

    steps = (rewards, discounts, q[:-1], q[1:], continues)
    _, targets = lax.scan(backward, q[-1], steps, reverse=True)
    return targets
