"""Inference from the log of audits: the fleet's parameters, its misses and its damage."""
