"""What `holdfast repair` says of storage that a tool checks: its damage, and what repairs it."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.checkers.interface import Damage, Locator, Report
from holdfast.checkers.registry import open_checker
from holdfast.control.queries.reports import find_known_damage, is_quarantined
from holdfast.owner import catalogue_in
from holdfast.owner.checked import CheckedRecord, find_checked
from holdfast.words import plural


def find_checked_holding(home: Path, name: str) -> CheckedRecord | None:
    with catalogue_in(home) as catalogue, catalogue.transaction() as connection:
        return find_checked(connection, name)


def show_repair(home: Path, record: CheckedRecord) -> tuple[dict[str, Any], list[str]]:
    """Return what is known to be damaged and how to repair it, as data and as text."""
    with catalogue_in(home) as catalogue, catalogue.transaction() as connection:
        report = find_known_damage(connection, record.scheduled or 0)
        quarantined = is_quarantined(connection, record.scheduled or 0)
    damage = Damage(()) if report is None else _locate(home, record, report)
    data = {
        "holding": record.name,
        "unit": record.unit,
        "damaged": [vars(unit) | {"defect": str(unit.defect)} for unit in damage.units],
        "files": list(damage.files),
        "commands": [list(command) for command in damage.commands],
        "loses_data": damage.loses_data,
        "advice": damage.advice or None,
        "quarantined": quarantined,
    }
    return data, list(_describe(record, damage, quarantined=quarantined))


def _locate(home: Path, record: CheckedRecord, report: Report) -> Damage:
    checker = open_checker(record.kind, record.place(home))
    return checker.locate(report) if isinstance(checker, Locator) else Damage(report.damaged)


def _describe(record: CheckedRecord, damage: Damage, *, quarantined: bool) -> Iterator[str]:
    if not damage.units:
        yield f"no {record.unit} of {record.name} is known to be damaged"
        return
    yield f"{plural(len(damage.units), record.unit)} of {record.name} damaged:"
    for unit in damage.units:
        yield f"  {unit.name}: {unit.defect}{f', {unit.detail}' if unit.detail else ''}"
    if damage.files:
        yield f"{plural(len(damage.files), 'file')} in it:"
        yield from (f"  {file}" for file in damage.files)
    if damage.commands:
        lossy = " (data in it is lost)" if damage.loses_data else ""
        yield f"these commands repair it{lossy}:"
        yield from (f"  {shlex.join(command)}" for command in damage.commands)
    if damage.advice:
        yield damage.advice
    if not damage.commands and not damage.advice:
        them = record.unit if len(damage.units) == 1 else f"{record.unit}s"
        yield f"put the {them} back from a copy of yours"
    yield f"then: holdfast audit now {record.name}"
    if quarantined:
        yield f"and, as it is quarantined: holdfast audit release {record.name}"
