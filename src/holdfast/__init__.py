"""Proves, again and again and at the lowest cost, that remote data is still intact."""

from importlib.metadata import version

__version__ = version("holdfast")
