"""Checks storage that tools audit: the tool is installed, and the storage lets us in.

Whether the data are intact only checks show, so the last one is reported, too. Nothing is changed:
a checker gets an empty folder of its own.
"""

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast.control.checked_commands import look_at
from holdfast.doctor.finding import Check, fault, ok, one_line
from holdfast.durations import SECOND
from holdfast.errors import HoldfastError, UnreachableError
from holdfast.evidence.leaf import Outcome
from holdfast.owner.checked import CheckedRecord
from holdfast.words import plural, size

TIMEOUT = 60 * SECOND
MAX_CONCURRENT = 8


def check(records: Sequence[CheckedRecord], outcomes: Mapping[str, str]) -> list[Check]:
    """Look at all of them concurrently."""
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        return list(pool.map(lambda record: _check(record, outcomes.get(record.name)), records))


def _check(record: CheckedRecord, outcome: str | None) -> Check:
    part = f"storage of {record.name}"
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            extent = look_at(record, record.place_in(Path(folder)), TIMEOUT)
    except UnreachableError as error:
        cure = "see that the storage is mounted or online, and that you may read it"
        return fault(part, one_line(str(error)), cure)
    except HoldfastError as error:
        cure = f"install what the auditor {record.kind!r} needs, or correct its options"
        return fault(part, one_line(str(error)), cure)
    there = f"{plural(extent.units, extent.unit)} of {size(extent.bytes)} at {record.address}"
    message = f"{there}, checked by {extent.tool}"
    if outcome == Outcome.FAILED:
        cure = "`holdfast status` says what is done about it, its alert what could be done"
        return fault(part, f"{message}; its last check found damage", cure)
    return ok(part, message)
