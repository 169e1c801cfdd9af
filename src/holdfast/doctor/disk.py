"""The disk: room for the home, and for the database if it is a file."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from holdfast.doctor.finding import Check, fault, ok, warning

PART = "disk"
NEARLY_FULL, LOW = 256 << 20, 1 << 30  # bytes

StatVfs = Callable[[Path], os.statvfs_result]


def look(folders: Iterable[Path], statvfs: StatVfs) -> Iterator[Check]:
    for folder in dict.fromkeys(folders):
        found = statvfs(folder)
        free = found.f_bavail * found.f_frsize
        what = f"{free >> 20:,} MiB are free for {folder}"
        cure = f"delete or move what else is on that disk, or enlarge it: `df {folder}` names it"
        if free < NEARLY_FULL:
            yield fault(PART, f"the disk is nearly full: {what}", cure)
        elif found.f_files and not found.f_favail:
            yield fault(PART, f"the disk can take no more files, though {what}", cure)
        elif free < LOW:
            yield warning(PART, what, cure)
        else:
            yield ok(PART, what)
