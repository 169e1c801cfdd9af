"""The operator's API: how everything stands, what came of it, and what may be ordered."""
