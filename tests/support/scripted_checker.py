"""A checker in this process that does what a test says: it hangs, raises, takes long, finds damage.

It stands for plug-ins. The kinds of ours have tests of their own.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

import pytest

from holdfast.checkers import registry
from holdfast.checkers.interface import (
    Damage,
    DamagedUnit,
    Defect,
    Extent,
    Finding,
    Group,
    Place,
    Repair,
    Report,
    Running,
    Sample,
)
from holdfast.errors import UnreachableError

KIND, PLAIN_KIND = "scripted", "plain"
BYTES = 1000  # of a unit
TOOL = "script 1.0"


@dataclass
class Script:
    """What a storage has, and how it behaves."""

    groups: dict[str, int]  # units, by name
    damaged: set[str] = field(default_factory=set)  # groups
    vanished: tuple[str, ...] = ()
    whole: bool = False  # whether the tool chooses by itself what it checks
    away: str = ""  # why the storage can't be reached
    outage: str = ""  # why it can't be reached during a check
    error: Exception | None = None  # of any call
    hanging: Event | None = None  # what a listing waits for
    running: bool = False  # whether checks go on and on
    done: int = 1  # units, by what a check that goes on says
    look: Callable[[Sample], Report] | None = None  # what a check reports instead
    samples: list[Sample] = field(default_factory=list)  # that were started, in order
    cancelled: list[Sample] = field(default_factory=list)
    repaired: list[Damage] = field(default_factory=list)
    listings: int = 0
    polled: Callable[[], object] = bool  # called with every poll

    def report(self, sample: Sample) -> Report:
        if self.outage:
            return blank(Finding.UNREACHABLE, reason=self.outage)
        if self.look is not None:
            return self.look(sample)
        units = (
            self.groups
            if not sample.groups
            else dict.fromkeys(sample.groups, 1)
            | {name: self.groups[name] for name in sample.groups if name in self.groups}
        )
        gone = {name for name in sample.groups if name not in self.groups}
        bad = sorted(({*units} & self.damaged) | gone)
        checked = sum(units.values()) if sample.groups else sample.units
        return Report(
            finding=Finding.DAMAGED if bad else Finding.INTACT,
            reason="some are damaged" if bad else "",
            units=sum(self.groups.values()) + len(gone),
            checked=checked,
            damaged=tuple(damaged_unit(name, missing=name in gone) for name in bad),
            verified=tuple(name for name in sample.groups if name not in bad),
            read_bytes=BYTES * checked,
            requests=checked,
            began=0,
            ended=0,
            tool=TOOL,
            words="all read\n",
        )


def damaged_unit(group: str, *, missing: bool = False) -> DamagedUnit:
    defect = Defect.MISSING if missing else Defect.CHANGED
    return DamagedUnit(f"{group}-unit", defect, group, "not as it was")


def blank(finding: Finding, *, reason: str = "", checked: int = 0) -> Report:
    return Report(finding, reason, 0, checked, (), (), 0, 0, 0, 0, TOOL)


SCRIPTS: dict[str, Script] = {}  # by address


class PlainChecker:
    """Checks, and can say no more about damage."""

    def __init__(self, place: Place) -> None:
        self._script = SCRIPTS[place.address]

    def extent(self) -> Extent:
        script = self._script
        script.listings += 1
        self._trouble()
        if script.hanging is not None:
            script.hanging.wait()
        groups = tuple(Group(name, n, n * BYTES) for name, n in sorted(script.groups.items()))
        units = sum(script.groups.values())
        listed = () if script.whole else groups
        return Extent("pack", units, units * BYTES, TOOL, listed, script.vanished)

    def start(self, sample: Sample) -> bytes:
        self._trouble()
        self._script.samples.append(sample)
        return json.dumps({"number": len(self._script.samples) - 1}).encode()

    def poll(self, pending: bytes) -> Report | Running:
        script = self._script
        script.polled()
        self._trouble()
        if script.running:
            return Running(script.done, 1 << 40)
        return script.report(script.samples[json.loads(pending)["number"]])

    def cancel(self, pending: bytes) -> None:
        self._script.cancelled.append(self._script.samples[json.loads(pending)["number"]])

    def _trouble(self) -> None:
        if self._script.error is not None:
            raise self._script.error
        if self._script.away:
            raise UnreachableError(self._script.away)


class ScriptedChecker(PlainChecker):
    def locate(self, report: Report) -> Damage:
        commands = (("tool", "repair", *(unit.name for unit in report.damaged)),)
        return Damage(report.damaged, ("home/letter.txt",), commands, advice="back up again then")

    def repair(self, damage: Damage) -> Repair:
        self._script.repaired.append(damage)
        self._script.damaged.clear()
        return Repair(tuple(unit.name for unit in damage.units), ())


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the kinds known for the length of a test."""
    monkeypatch.setitem(registry.BUILT_IN, KIND, f"{__name__}:ScriptedChecker")
    monkeypatch.setitem(registry.BUILT_IN, PLAIN_KIND, f"{__name__}:PlainChecker")
    SCRIPTS.clear()
