"""The checked holdings of a home as audits need them: records are read each time, checkers kept."""

from pathlib import Path
from threading import Lock

from sqlalchemy import Engine

from holdfast.checkers.interface import Checker, Report
from holdfast.checkers.registry import open_checker
from holdfast.control.queries.reports import last_report
from holdfast.owner.checked import CheckedRecord, find_checked, list_unscheduled
from holdfast.storage.database import reading, transaction


class CheckedFleet:
    """Checked holdings, for any number of threads."""

    def __init__(self, home: Path, engine: Engine) -> None:
        self._home, self._engine = home, engine
        self._lock = Lock()
        self._checkers: dict[tuple[str, str], Checker] = {}  # by kind and folder

    def find(self, name: str) -> CheckedRecord | None:
        """Return a holding as it is now, unless it is gone."""
        with transaction(reading(self._engine)) as connection:
            return find_checked(connection, name)

    def unscheduled(self) -> list[tuple[str, int, int]]:
        """Return what is not audited yet: names, numbers of units, and `verify_within`."""
        with transaction(reading(self._engine)) as connection:
            records = list_unscheduled(connection)
        return [(record.name, record.units, record.verify_within or 0) for record in records]

    def last_report(self, holding: int) -> Report | None:
        """Return what the last check of a holding that failed said, by its id on the schedule."""
        with transaction(reading(self._engine)) as connection:
            return last_report(connection, holding)

    def open(self, record: CheckedRecord) -> Checker:
        """Return the checker of a holding; a plug-in that is gone raises an error."""
        key = (record.kind, record.folder)
        with self._lock:
            known = self._checkers.get(key)
        if known is None:
            known = open_checker(record.kind, record.place(self._home))
            with self._lock:
                self._checkers[key] = known
        return known
