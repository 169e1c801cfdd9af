"""Checks the disk space of the home, and of the database if it is a file."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from holdfast.doctor.finding import Check, fault, ok, warning

PART = "disk"
NEARLY_FULL, LOW = 256 << 20, 1 << 30  # bytes

StatVfs = Callable[[Path], os.statvfs_result]


def check(folders: Iterable[Path], statvfs: StatVfs) -> Iterator[Check]:
    for folder in dict.fromkeys(folders):
        stat = statvfs(folder)
        free = stat.f_bavail * stat.f_frsize
        message = f"{free >> 20:,} MiB are free for {folder}"
        cure = f"free space on that disk, or enlarge it: `df {folder}` names it"
        if free < NEARLY_FULL:
            yield fault(PART, f"the disk is nearly full: {message}", cure)
        elif stat.f_files and not stat.f_favail:
            yield fault(PART, f"the disk can take no more files, though {message}", cure)
        elif free < LOW:
            yield warning(PART, message, cure)
        else:
            yield ok(PART, message)
