"""Audits a folder of .zip archives by the checksums that they hold: a plug-in of Holdfast."""

import platform
import zipfile
import zlib
from pathlib import Path

from holdfast.checkers.interface import (
    DamagedUnit,
    Defect,
    Extent,
    Finding,
    Group,
    Report,
    Sample,
)
from holdfast.checkers.process_checker import ProcessChecker, Progress, now
from holdfast.errors import UnreachableError

TOOL = f"zipfile of Python {platform.python_version()}"


class ZipChecker(ProcessChecker):
    kind = "zip"

    def extent(self) -> Extent:
        sizes = {path.name: path.stat().st_size for path in self._archives()}
        groups = tuple(Group(name, 1, size) for name, size in sizes.items())
        return Extent("archive", len(sizes), sum(sizes.values()), TOOL, groups)

    def run(self, sample: Sample, on_progress: Progress) -> Report:
        began, read = now(), 0
        there = {path.name: path for path in self._archives()}
        damaged: dict[str, DamagedUnit] = {}
        for number, name in enumerate(sample.groups):
            on_progress(number, len(sample.groups))
            if name not in there:
                damaged[name] = DamagedUnit(name, Defect.MISSING, name)
            elif fault := _find_fault(there[name]):
                damaged[name] = DamagedUnit(name, Defect.CHANGED, name, fault)
            read += there[name].stat().st_size if name in there else 0
        return Report(
            finding=Finding.DAMAGED if damaged else Finding.INTACT,
            reason=f"{len(damaged)} archives are damaged" if damaged else "",
            units=len(there),
            checked=len(sample.groups),
            damaged=tuple(damaged.values()),
            verified=tuple(name for name in sample.groups if name not in damaged),
            read_bytes=read,
            requests=0,
            began=began,
            ended=now(),
            tool=TOOL,
        )

    def _archives(self) -> list[Path]:
        archives = sorted(Path(self.place.address).glob("*.zip"))
        if not archives:
            raise UnreachableError(f"there is no .zip archive in {self.place.address}")
        return archives


def _find_fault(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            member = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        return str(error)
    return f"the checksum of {member} is wrong" if member else ""
