"""Simulation: a vectorised fleet, Gymnasium environments, evaluation and measures."""

import gymnasium

# `make` adds no wrapper: an assignment to one, such as `env.multiplier = 5.0`, reaches nothing.
# The environment itself asks to be reset first, and tests run Gymnasium's checker on it.
gymnasium.register(
    "holdfast/Audit-v0",
    entry_point="holdfast.sim.environment:AuditEnv",
    vector_entry_point="holdfast.sim.vector:AuditVectorEnv",
    order_enforce=False,
    disable_env_checker=True,
)
