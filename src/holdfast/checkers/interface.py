"""The interface of a checker: what it can check, what it is asked to check, and what it reports.

A checker verifies data that lie where no Holdfast node runs. It names what can be drawn (groups of
units), is given a sample of them, and reports. Its word is no proof: the evidence says so.

A package offers a checker by an entry point in the group `holdfast.auditors`, which names a
function that takes a `Place` and returns a `Checker`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

MAX_WORDS = 4096  # characters of a tool's own words that a report keeps


@dataclass(frozen=True)
class Place:
    """Where the data of one holding lie, and how to get there.

    `options` never hold a secret, only where one is: a file, or a variable of the environment.
    `folder` is private to the checker of this holding, and is kept between checks.
    """

    address: str
    options: Mapping[str, str]
    folder: Path


@dataclass(frozen=True)
class Group:
    """What can be drawn by itself: one object, or all packs whose names begin alike."""

    name: str
    units: int = 1
    bytes: int = 0


@dataclass(frozen=True)
class Extent:
    """What there is to check at the moment.

    `groups` is empty if the tool itself chooses what to check. `vanished` names what the last
    extent had and this one lacks, if the checker can tell and it should be there.
    """

    unit: str  # what one unit is called: "pack", "object", "segment"
    units: int
    bytes: int
    tool: str  # the program and its version
    groups: tuple[Group, ...] = ()
    vanished: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sample:
    """What is to be checked: these groups, or at least that many units if the tool chooses."""

    seed: bytes
    units: int
    groups: tuple[str, ...]
    deadline: int  # milliseconds since 1970


class Defect(StrEnum):
    """What is wrong with a unit."""

    MISSING = "missing"
    TRUNCATED = "truncated"
    CHANGED = "changed"  # its bytes are not those that were stored
    UNREADABLE = "unreadable"  # the storage itself says that it can't read it


@dataclass(frozen=True)
class DamagedUnit:
    name: str
    defect: Defect
    group: str  # by which it can be checked again
    detail: str = ""


class Finding(StrEnum):
    """What a check says. Only the first two say something about the data."""

    INTACT = "intact"
    DAMAGED = "damaged"
    UNREACHABLE = "unreachable"  # the storage is away, locked, or lets nobody in
    UNKNOWN = "unknown"  # the check did not run to its end, or its words make no sense


@dataclass(frozen=True)
class Report:
    """What a check says about its sample. Times are milliseconds since 1970.

    `verified` names the groups of which every unit was read and is intact; `checked` counts units,
    damaged ones included.
    """

    finding: Finding
    reason: str  # one sentence; "" if all is intact
    units: int
    checked: int
    damaged: tuple[DamagedUnit, ...]
    verified: tuple[str, ...]
    read_bytes: int
    requests: int
    began: int
    ended: int
    tool: str
    words: str = ""  # the tool's own, at most MAX_WORDS characters of them


@dataclass(frozen=True)
class Running:
    """The check is under way."""

    done: int = 0  # units, of how many
    total: int = 0


@dataclass(frozen=True)
class Damage:
    """What the damaged units mean: the files in them, and what could be done.

    `commands` are argument lists, for the operator to read first.
    """

    units: tuple[DamagedUnit, ...]
    files: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    loses_data: bool = False  # whether those commands give up what is damaged
    advice: str = ""


@dataclass(frozen=True)
class Repair:
    repaired: tuple[str, ...]  # names of units
    left: tuple[str, ...]
    detail: str = ""
    words: str = ""


class Checker(Protocol):
    """Checks the data of one holding."""

    def extent(self) -> Extent:
        """Return what there is now; raise UnreachableError if the storage is away.

        A mistake of the operator, such as a wrong password, raises InputError, with its cure.
        """

    def start(self, sample: Sample) -> bytes:
        """Return what identifies this check; it is saved before anything runs."""

    def poll(self, pending: bytes) -> Report | Running:
        """Begin or resume the check, and return how it stands, without waiting for its end.

        However often it is asked, also by another process, the end is the same.
        """

    def cancel(self, pending: bytes) -> None:
        """Stop the check if it runs, and delete what it left; also after its report was read."""


@runtime_checkable
class Locator(Protocol):
    """A checker that can say what damaged units mean."""

    def locate(self, report: Report) -> Damage: ...


@runtime_checkable
class Repairer(Protocol):
    """A checker that can repair; it is called only if the operator's settings allow it."""

    def repair(self, damage: Damage) -> Repair: ...
