"""Damage of checked storage in words: which units, which files, and what could be done."""

import shlex
from collections.abc import Sequence

from holdfast.checkers.interface import Damage, DamagedUnit

MAX_UNITS = 3  # in a sentence
MAX_FILES = 5
MAX_COMMANDS = 4


def name_some(units: Sequence[DamagedUnit]) -> str:
    """Return the names of damaged units, as far as a sentence holds them."""
    return _some([f"{unit.name} ({unit.defect})" for unit in units], MAX_UNITS)


def describe_damage(damage: Damage) -> str:
    """Return what damaged units mean, for the operator alone: files are named."""
    files = f"files: {_some(damage.files, MAX_FILES)}" if damage.files else ""
    return "; ".join(filter(None, (files, damage.advice, describe_commands(damage))))


def describe_commands(damage: Damage) -> str:
    if not damage.commands:
        return ""
    commands = [shlex.join(command) for command in damage.commands[:MAX_COMMANDS]]
    lossy = ", which gives up what is damaged" if damage.loses_data else ""
    return f"to repair it{lossy}: {' && '.join(commands)}"


def _some(names: Sequence[str], limit: int) -> str:
    more = len(names) - limit
    shown = ", ".join(names[:limit])
    return f"{shown} and {more:,} more" if more > 0 else shown
