"""Auditors of a folder of files that should all hold `good`: one that is right, and liars."""

import secrets
from dataclasses import replace
from pathlib import Path

from holdfast import atomic
from holdfast.checkers import codec
from holdfast.checkers.interface import (
    DamagedUnit,
    Defect,
    Extent,
    Finding,
    Group,
    Place,
    Report,
    Running,
    Sample,
)
from holdfast.checkers.process_checker import now
from holdfast.errors import InputError, UnreachableError


class Right:
    """Checks at the first poll, in the process that polls."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def extent(self) -> Extent:
        names = self.names()
        return Extent("file", len(names), 4 * len(names), "tests", tuple(map(Group, names)))

    def start(self, sample: Sample) -> bytes:
        return secrets.token_hex(4).encode() + codec.dump(sample)

    def poll(self, pending: bytes) -> Report | Running:
        path = self.path(pending)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            report = self.check(codec.load(Sample, pending[8:], "sample"))
            atomic.write(path, codec.dump(report))  # several may poll at once
        return codec.load(Report, path.read_bytes(), "report")

    def cancel(self, pending: bytes) -> None:
        self.path(pending).unlink(missing_ok=True)

    def check(self, sample: Sample) -> Report:
        report = Report(Finding.INTACT, "", 0, 0, (), (), 0, 0, now(), now(), "tests")
        if now() > sample.deadline:
            return replace(report, finding=Finding.UNKNOWN, reason="too late")
        try:
            self.names()
        except UnreachableError as error:
            return replace(report, finding=Finding.UNREACHABLE, reason=str(error))
        bad = [name for name in sample.groups if not self.is_good(name)]
        return replace(
            report,
            finding=Finding.DAMAGED if bad else Finding.INTACT,
            reason="damaged" if bad else "",
            checked=len(sample.groups),
            damaged=tuple(DamagedUnit(name, Defect.CHANGED, name) for name in bad),
            verified=tuple(name for name in sample.groups if name not in bad),
        )

    def is_good(self, name: str) -> bool:
        return Path(self.place.address, name).read_bytes() == b"good"

    def names(self) -> list[str]:
        try:
            return sorted(path.name for path in Path(self.place.address).iterdir())
        except FileNotFoundError as error:
            raise UnreachableError("the folder is away") from error

    def path(self, pending: bytes) -> Path:
        return self.place.folder / pending[:8].decode()


class UnstableExtent(Right):
    def extent(self) -> Extent:
        return replace(super().extent(), tool=secrets.token_hex(4))


class LostUnits(Right):
    def extent(self) -> Extent:
        return replace(super().extent(), units=7)


class Eager(Right):
    def start(self, sample: Sample) -> bytes:
        pending = super().start(sample)
        self.poll(pending)
        return pending


class SameCheck(Right):
    def start(self, sample: Sample) -> bytes:
        return b"00000000" + codec.dump(sample)


class Forgetful(Right):
    def poll(self, pending: bytes) -> Report | Running:
        self.cancel(pending)
        answer = super().poll(pending)
        return (
            replace(answer, ended=now() + secrets.randbits(30))
            if type(answer) is Report
            else answer
        )


class Untidy(Right):
    def cancel(self, pending: bytes) -> None:
        pass


class Tireless(Right):
    def check(self, sample: Sample) -> Report:
        return super().check(replace(sample, deadline=2**53))


class Blind(Right):
    def is_good(self, name: str) -> bool:
        return bool(name)


class Alarmist(Right):
    def is_good(self, name: str) -> bool:
        return name == "a"


class Idle(Right):
    def check(self, sample: Sample) -> Report:
        return replace(super().check(sample), checked=0)


class Talkative(Right):
    def check(self, sample: Sample) -> Report:
        return replace(super().check(sample), words="x" * 5000)


class Hasty(Right):
    """Calls an outage damage."""

    def names(self) -> list[str]:
        return super().names() if Path(self.place.address).exists() else ["a", "b", "c"]

    def is_good(self, name: str) -> bool:
        return Path(self.place.address, name).exists() and super().is_good(name)


class Accusing(Right):
    """Calls an outage a mistake of the operator."""

    def names(self) -> list[str]:
        try:
            return super().names()
        except UnreachableError as error:
            raise InputError("you gave a wrong folder") from error


class Vague(Right):
    def check(self, sample: Sample) -> Report:
        report = super().check(sample)
        return replace(report, damaged=report.damaged[:1])


FAULTS = {
    UnstableExtent: "the extent of the same data differs",
    LostUnits: "the groups don't have all units",
    Eager: "start has an effect",
    SameCheck: "two checks of one sample are the same",
    Forgetful: "polled again, the check ends otherwise",
    Untidy: "left files behind",
    Tireless: "a check past its deadline",
    Blind: "on damaged data the report is not damaged, but intact",
    Alarmist: "on intact data the report is not intact, but damaged",
    Idle: "nothing was checked",
    Talkative: "more than 4096 characters",
    Hasty: "a check during an outage ends as damaged",
    Accusing: "the extent calls an outage something else: you gave a wrong folder",
    Vague: "does not name what is damaged: c",
}
