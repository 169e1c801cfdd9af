"""Proves, again and again and at the lowest cost, that remote data is still intact."""

__version__ = "0.1.0"
