"""The audit world: scenarios at work, a vectorised fleet, a Gymnasium environment, measures."""

import gymnasium

gymnasium.register("holdfast/Audit-v0", entry_point="holdfast.sim.environment:AuditEnv")
