"""Reads objects side by side and compares their hashes with those they should have.

What is not as expected is read once more before it counts, and what a listing leaves out is asked
for by its name. Damage is told from an outage: while the storage can't be listed, or nothing in it
can be read, nothing is called missing or unreadable.
"""

import hashlib
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

import holdfast
from holdfast.checkers.interface import DamagedUnit, Defect, Finding, Report, Sample
from holdfast.checkers.process_checker import Progress, now
from holdfast.checkers.stored_objects import GoneError, StoredObjects, UnreadableError
from holdfast.errors import HoldfastError, UnreachableError
from holdfast.words import plural

TOOL = f"holdfast {holdfast.__version__}"
AHEAD = 2  # objects that wait for each thread
LISTED_AT_ONCE = 1000  # objects that one request lists
RETRY_DELAY_SECONDS = 1.0
WITNESSES = 3  # other objects that are read where one can't be
NOT_GIVEN = "it is listed, but the storage says that there is no such object"


@dataclass(frozen=True)
class Expected:
    """An object and the hash that its bytes should have."""

    name: str
    algorithm: str
    digest: str


@dataclass(frozen=True)
class Look:
    """What reading one object gave."""

    name: str
    defect: Defect | None = None
    detail: str = ""
    read_bytes: int = 0
    requests: int = 0


@dataclass
class Tally:
    """What reading all objects of a sample gave."""

    checked: int = 0
    read_bytes: int = 0
    requests: int = 0
    verified: list[str] = field(default_factory=list)
    damaged: list[DamagedUnit] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    outage: str = ""  # why the rest could not be read

    @property
    def finding(self) -> Finding:
        if self.damaged:
            return Finding.DAMAGED
        return Finding.UNREACHABLE if self.outage else Finding.INTACT

    def count_missing(self) -> None:
        """Count what is gone as damaged."""
        self.checked += len(self.missing)
        self.damaged += [DamagedUnit(name, Defect.MISSING, name) for name in self.missing]
        self.missing = []

    def count_unreadable(self, names: Iterable[str]) -> None:
        """Count as damaged what is listed, but not given out."""
        units = [DamagedUnit(name, Defect.UNREADABLE, name, NOT_GIVEN) for name in names]
        self.checked += len(units)
        self.damaged += units

    def add(self, look: Look) -> None:
        self.read_bytes += look.read_bytes
        self.requests += look.requests
        if look.defect is Defect.MISSING:
            self.missing.append(look.name)
            return
        self.checked += 1
        if look.defect is None:
            self.verified.append(look.name)
        else:
            self.damaged.append(DamagedUnit(look.name, look.defect, look.name, look.detail))


def check_hashes(
    objects: StoredObjects,
    sizes: Mapping[str, int],
    expected: Iterable[Expected],
    total: int,
    on_progress: Progress,
) -> Tally:
    """Read the objects, of the sizes that a listing gave; stop at the first outage."""
    tally = Tally(requests=1 + len(sizes) // LISTED_AT_ONCE)
    waiting, left = set[Future[Look]](), iter(expected)
    with ThreadPoolExecutor(objects.threads) as pool:
        while True:
            free = 0 if tally.outage else AHEAD * objects.threads - len(waiting)
            waiting |= {pool.submit(_look, objects, sizes, unit) for unit in islice(left, free)}
            if not waiting:
                break
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    tally.add(future.result())
                except UnreachableError as error:
                    tally.outage = tally.outage or str(error)
                    waiting = {other for other in waiting if not other.cancel()}
            on_progress(tally.checked, total)
    _rule_out_outage(objects, tally)
    return tally


def draw(sample: Sample, names: Iterable[str]) -> Sequence[str]:
    """Return the names that a sample asks for, or that its seed draws if it leaves the choice."""
    if sample.groups:
        return sample.groups
    among = sorted(names)
    return random.Random(sample.seed).sample(among, min(sample.units, len(among)))


def write_report(tally: Tally, unit: str, units: int, began: int, words: str = "") -> Report:
    damaged = plural(len(tally.damaged), f"{unit} is damaged", f"{unit}s are damaged")
    reasons = ([damaged] if tally.damaged else []) + ([tally.outage] if tally.outage else [])
    return Report(
        finding=tally.finding,
        reason="; ".join(reasons),
        units=units,
        checked=tally.checked,
        damaged=tuple(tally.damaged),
        verified=tuple(tally.verified),
        read_bytes=tally.read_bytes,
        requests=tally.requests,
        began=began,
        ended=now(),
        tool=TOOL,
        words=words,
    )


def _rule_out_outage(objects: StoredObjects, tally: Tally) -> None:
    """Take back what may be an outage only: see whether the rest is there, and can be read."""
    unreadable = [unit for unit in tally.damaged if unit.defect is Defect.UNREADABLE]
    if not unreadable and not tally.missing:
        return
    try:
        tally.requests += 1
        there = objects.list_sizes()
    except HoldfastError as error:
        reason = str(error)
    else:
        tally.count_unreadable(name for name in tally.missing if name in there)
        tally.missing = [name for name in tally.missing if name not in there]
        unreadable = [unit for unit in tally.damaged if unit.defect is Defect.UNREADABLE]
        if there and (not unreadable or tally.verified or _reads_others(objects, there, tally)):
            return
        reason = unreadable[0].detail if there else f"there is nothing at {objects.address} now"
    tally.outage = tally.outage or reason
    tally.checked -= len(unreadable)
    tally.damaged = [unit for unit in tally.damaged if unit not in unreadable]
    tally.missing = []


def _reads_others(objects: StoredObjects, there: Mapping[str, int], tally: Tally) -> bool:
    """Return whether an object that was not in the sample can be read."""
    bad = {unit.name for unit in tally.damaged}
    others = [name for name, size in there.items() if size and name not in bad]
    for name in random.SystemRandom().sample(others, min(WITNESSES, len(others))):
        tally.requests += 1
        with suppress(HoldfastError):
            tally.read_bytes += len(next(objects.pieces(name, min(there[name], 1)), b""))
            return True
    return False


def _look(objects: StoredObjects, sizes: Mapping[str, int], expected: Expected) -> Look:
    """Read one object, and once more if it is not as it should be."""
    try:
        first = _read(objects, expected, sizes.get(expected.name))
        if first.defect is None:
            return first
    except UnreachableError:
        time.sleep(RETRY_DELAY_SECONDS)
        first = Look(expected.name, requests=1)
    again = _read(objects, expected, None)
    return replace(
        again,
        read_bytes=first.read_bytes + again.read_bytes,
        requests=first.requests + again.requests,
    )


def _read(objects: StoredObjects, expected: Expected, size: int | None) -> Look:
    """Read one object and compare its hash; without a size, the storage is asked for it first."""
    name, algorithm = expected.name, expected.algorithm
    hasher = hashlib.new(algorithm, usedforsecurity=False)
    length, asked = 0, int(size is None)
    try:
        for piece in objects.pieces(name, objects.size(name) if size is None else size):
            hasher.update(piece)
            length += len(piece)
    except GoneError as error:
        return Look(name, Defect.MISSING, str(error), length, asked + 1)
    except UnreadableError as error:
        return Look(name, Defect.UNREADABLE, str(error), length, asked + 1)
    digest, requests = hasher.hexdigest(), asked + objects.requests(length)
    if digest == expected.digest:
        return Look(name, None, "", length, requests)
    if size is None:
        objects.check_answers(name)
    defect = Defect.CHANGED if length else Defect.TRUNCATED
    detail = f"the {algorithm} of its {length} bytes is {digest}"
    return Look(name, defect, detail, length, requests)
