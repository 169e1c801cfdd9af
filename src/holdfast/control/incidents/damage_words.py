"""Damage of checked storage in words: which units, which files, and what could be done."""

import shlex
from collections.abc import Sequence
from typing import Any

from holdfast.checkers import codec
from holdfast.checkers.interface import Damage, DamagedUnit, Report
from holdfast.evidence.leaf import Outcome
from holdfast.words import plural

MAX_UNITS = 3  # in a sentence
MAX_FILES = 5
MAX_COMMAND_LENGTH = 150
FIRST_SIGNS = {  # of a loss, in words
    Outcome.FAILED: "the node signed a wrong proof",
    Outcome.ADMITTED: "the node admits that what it stored is damaged",
}


def describe_first_sign(audit: Any, unit: str) -> str:
    """Return in words what shows that data is lost, by the row of the audit that failed."""
    if audit.report is None:
        return FIRST_SIGNS[audit.outcome]
    damaged = codec.load(Report, bytes(audit.report), "the report of a check").damaged
    return f"{plural(len(damaged), f'{unit} is', f'{unit}s are')} damaged: {name_some(damaged)}"


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
