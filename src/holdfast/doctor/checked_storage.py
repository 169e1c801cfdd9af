"""Checks storage that tools audit: the tool is installed, and the storage lets us in.

Whether the data are intact only checks show, so the last one is reported, too. Nothing is changed:
a checker gets an empty folder of its own.
"""

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from holdfast.control.checked_commands import look_at
from holdfast.control.planning.check_costs import RAISE_BYTES, describe_shortfall
from holdfast.control.settings.models import ControlSettings
from holdfast.doctor.finding import Check, fault, ok, one_line, warning
from holdfast.durations import SECOND
from holdfast.errors import HoldfastError, UnreachableError
from holdfast.evidence.leaf import Outcome
from holdfast.owner.checked import CheckedRecord
from holdfast.words import amount

TIMEOUT = 60 * SECOND
MAX_CONCURRENT = 8


@dataclass(frozen=True)
class LastChecks:
    """How the last check of each holding ended, and why those ended so that settled nothing."""

    outcomes: Mapping[str, str]
    reasons: Mapping[str, str | None]


def check(
    records: Sequence[CheckedRecord], last: LastChecks, settings: ControlSettings
) -> list[Check]:
    """Look at all of them concurrently."""
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        return list(pool.map(lambda record: _check(record, last, settings), records))


def _check(record: CheckedRecord, last: LastChecks, settings: ControlSettings) -> Check:
    outcome, reason = last.outcomes.get(record.name), last.reasons.get(record.name)
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
    there = f"{amount(extent.units, extent.unit, extent.bytes)} at {record.address}"
    message = f"{there}, checked by {extent.tool}"
    if outcome == Outcome.FAILED:
        cure = f"`holdfast repair {record.name}` shows what is damaged and how to repair it"
        return fault(part, f"{message}; its last check found damage", cure)
    if outcome == Outcome.UNKNOWN:
        said = f"{message}; its last check could not say whether it is intact"
        cure = f"`holdfast audit now {record.name}` checks it again"
        return warning(part, f"{said}: {reason}" if reason else said, cure)
    whole = not extent.groups
    shortfall = describe_shortfall(extent.bytes, record.verify_within, settings, whole=whole)
    if shortfall is not None:
        return warning(part, f"{message}; {shortfall}", RAISE_BYTES)
    return ok(part, message)
