"""Damage of checked storage in words: which units, which files, and what could be done."""

import shlex
from collections.abc import Sequence

from holdfast.checkers.interface import Damage, DamagedUnit

MAX_UNITS = 3  # in a sentence
MAX_FILES = 5
MAX_COMMAND_LENGTH = 150


def name_some(units: Sequence[DamagedUnit]) -> str:
    """Return the names of damaged units, as far as a sentence holds them."""
    return _some([f"{unit.name} ({unit.defect})" for unit in units], MAX_UNITS)


def describe_damage(damage: Damage, name: str) -> str:
    """Return what damaged units mean, for the operator alone: files are named."""
    files = f"files: {_some(damage.files, MAX_FILES)}" if damage.files else ""
    return "; ".join(filter(None, (files, describe_commands(damage, name))))


def describe_commands(damage: Damage, name: str) -> str:
    """Return the commands that repair a holding, or where to read them if they are long."""
    if not damage.commands:
        return damage.advice
    lossy = " (data in it is lost)" if damage.loses_data else ""
    commands = " && ".join(shlex.join(command) for command in damage.commands)
    if len(commands) > MAX_COMMAND_LENGTH:
        return f"`holdfast repair {name}` shows how to repair it{lossy}"
    return f"to repair it{lossy}: {commands}"


def _some(names: Sequence[str], limit: int) -> str:
    more = len(names) - limit
    shown = ", ".join(names[:limit])
    return f"{shown} and {more:,} more" if more > 0 else shown
