"""Commands about a holding that no node stores: it is added, gets another name, or is removed.

Each is one transaction with its leaf in the evidence. It works while the service runs.
"""

import math
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import structlog

from holdfast.checkers.interface import Extent, Place
from holdfast.checkers.registry import open_checker
from holdfast.checkers.report_check import validate_extent
from holdfast.control.audits.pending import decode_pending
from holdfast.control.audits.pending_check import PendingCheck
from holdfast.control.holding_commands import find_scheduled, lock_holding, rename_rows, unschedule
from holdfast.control.operator_commands import record_instruction
from holdfast.control.policies.aliases import Author
from holdfast.control.scheduling.coverage import CYCLE_SHARE, delete_groups
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import CheckSettings, ControlSettings
from holdfast.durations import DAY, SECOND, format_duration
from holdfast.errors import HoldfastError, InputError, UnreachableError
from holdfast.evidence import leaf
from holdfast.owner import Catalogue
from holdfast.owner.checked import (
    HOLDINGS,
    CheckedRecord,
    check_free,
    delete_checked,
    insert_checked,
    rename_checked,
)
from holdfast.owner.enrolment import check_name
from holdfast.words import plural, size, span

FOLDER_BYTES = 16
log = structlog.get_logger()


@dataclass(frozen=True)
class NewChecked:
    """A holding that is to be checked: by which kind of checker, where, and how soon all of it."""

    name: str
    kind: str
    address: str
    options: Mapping[str, str]
    verify_within: int | None = None


def add(
    catalogue: Catalogue, home: Path, new: NewChecked, settings: ControlSettings, author: Author
) -> tuple[CheckedRecord, Extent]:
    """Add a holding after a look at what there is; if it can't be checked, nothing is left."""
    check_name(new.name)
    leaf.CheckedHolding(0, new.name, new.kind, new.address)  # the evidence must be able to name it
    with catalogue.transaction() as connection:
        check_free(connection, new.name)
    record = CheckedRecord(
        new.name,
        new.kind,
        new.address,
        dict(new.options),
        secrets.token_hex(FOLDER_BYTES),
        unit="",
        units=0,
        bytes=0,
        verify_within=new.verify_within,
    )
    try:
        extent = look_at(record, record.place(home), settings.checks.listing)
        if new.verify_within is not None:
            check_promise(new.verify_within, extent, settings.rails, settings.checks)
        record = replace(record, unit=extent.unit, units=extent.units, bytes=extent.bytes)
        with catalogue.transaction() as connection:
            insert_checked(connection, record)
            subject = f"{new.name}, checked by {new.kind} at {new.address}"
            record_instruction(connection, leaf.Order.ADD, subject, author)
    except BaseException:
        shutil.rmtree(home / HOLDINGS / record.folder, ignore_errors=True)
        with suppress(OSError):  # other holdings may be there
            (home / HOLDINGS).rmdir()
        raise
    return record, extent


def rename(catalogue: Catalogue, record: CheckedRecord, new: str, author: Author) -> CheckedRecord:
    """Give a checked holding another name. What is in the evidence stays as it is."""
    check_name(new)
    with lock_holding(catalogue, record.name), catalogue.transaction() as connection:
        check_free(connection, new)
        rename_rows(
            connection,
            record.name,
            new,
            author,
            lambda: rename_checked(connection, record.name, new),
        )
    return replace(record, name=new)


def remove(catalogue: Catalogue, home: Path, record: CheckedRecord, author: Author) -> None:
    """Remove a checked holding from the schedule. What it is about stays where it is.

    Open cases and alerts about it end, and so does a check under way. Its audits and its evidence
    stay.
    """
    with lock_holding(catalogue, record.name), catalogue.transaction() as connection:
        row = find_scheduled(connection, record.name)
        delete_checked(connection, record.name)
        if row is not None:
            delete_groups(connection, row.id)
            unschedule(connection, row, author)
        subject = f"{record.name}, checked by {record.kind} at {record.address}"
        record_instruction(connection, leaf.Order.REMOVE, subject, author)
    if row is not None and row.flight is not None:
        _cancel(record, home, bytes(row.flight))
    shutil.rmtree(home / HOLDINGS / record.folder, ignore_errors=True)


def check_promise(within: int, extent: Extent, rails: Rails, checks: CheckSettings) -> None:
    """Raise if checks can't verify every unit within this time, and say what would do."""
    step = rails.shortest * rails.unit
    if within < 2 * step:
        raise InputError(
            f"checks come at most every {format_duration(step)} (shortest in [control.rails]), so "
            f"nothing can be verified within {format_duration(within)}: allow at least "
            f"{format_duration(2 * step)}"
        )
    cycle = CYCLE_SHARE * within if extent.groups else step
    units = plural(extent.units, extent.unit)
    if extent.units > checks.sample_cap * (cycle // step):
        longer = step * math.ceil(extent.units / checks.sample_cap) / CYCLE_SHARE
        cure = f"allow at least {_days(longer)}, or raise" if extent.groups else "raise"
        raise InputError(
            f"{units} can't be verified within {format_duration(within)}: a check has at most "
            f"{checks.sample_cap:,} of them; {cure} sample_cap in [control.checks]"
        )
    daily = extent.bytes * DAY / cycle
    if checks.daily_bytes is not None and daily > checks.daily_bytes:
        longer = extent.bytes * DAY / checks.daily_bytes / CYCLE_SHARE
        raise InputError(
            f"{size(extent.bytes)} within {format_duration(within)} are {size(daily)} a day, and "
            f"checks may read {size(checks.daily_bytes)} a day: allow at least {_days(longer)}, or "
            "raise daily_bytes in [control.checks]"
        )


def _days(milliseconds: float) -> str:
    return plural(max(math.ceil(milliseconds / DAY), 1), "day")


def look_at(record: CheckedRecord, place: Place, timeout: int) -> Extent:
    """Return what there is to check, or raise why it can't be checked."""

    def look() -> Extent:
        return validate_extent(open_checker(record.kind, place).extent())

    extent = _call_within(timeout, look, record)
    if not extent.units:
        raise InputError(f"there is nothing to check at {record.address}: store something first")
    return extent


def _call_within(timeout: int, call: Callable[[], Extent], record: CheckedRecord) -> Extent:
    """Call a function in a thread, and leave it alone if it takes too long."""
    results: SimpleQueue[Extent | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            results.put(call())
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            results.put(error)

    Thread(target=run, daemon=True).start()
    try:
        result = results.get(timeout=timeout / SECOND)
    except Empty:
        raise UnreachableError(
            f"{record.address} gave no answer within {span(timeout)}: see whether it is there, or "
            "raise listing in [control.checks]"
        ) from None
    if isinstance(result, Extent):
        return result
    if isinstance(result, HoldfastError) or not isinstance(result, Exception):
        raise result
    said = f"{type(result).__name__}: {result}"
    raise InputError(f"the auditor {record.kind!r} failed: {said}") from result


def _cancel(record: CheckedRecord, home: Path, flight: bytes) -> None:
    """Stop the check that is under way, if it runs on this machine."""
    pending = decode_pending(flight)
    if isinstance(pending, PendingCheck) and pending.job:
        try:
            open_checker(record.kind, record.place(home)).cancel(pending.job)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            log.warning("a check goes on", holding=record.name, reason=str(error))
