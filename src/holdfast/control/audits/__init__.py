"""Runs audits: prepares, opens, asks, settles and records them."""
