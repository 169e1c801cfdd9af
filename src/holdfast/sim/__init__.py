"""Simulation: a vectorised fleet, a Gymnasium environment, evaluation and measures."""

import gymnasium

gymnasium.register("holdfast/Audit-v0", entry_point="holdfast.sim.environment:AuditEnv")
