"""The operator's world, simulated: nodes in continuous time, what happens to them, and measures."""
