"""The command line: thin commands over the rooms of the house."""

from holdfast.cli.app import main

__all__ = ["main"]
