"""What nobody observes, inferred from the log of audits: parameters, misses, damage."""
