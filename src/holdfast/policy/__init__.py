"""Policies: from what was observed of a node to its next audit, in NumPy alone."""
