"""Checked holdings in a database, as checks that ended leave them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, insert, select, update

from holdfast.checkers import codec
from holdfast.checkers.interface import DamagedUnit, Defect, Extent, Finding, Group, Report
from holdfast.control.scheduling import coverage
from holdfast.control.scheduling.coverage import Look
from holdfast.control.scheduling.schedule import Schedule
from holdfast.owner.checked import CheckedRecord, insert_checked
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, holdings

TOOL = "restic 0.14.0"


@dataclass
class CheckedRows:
    """One checked holding, whose checks are written down instead of run."""

    engine: Engine
    name: str
    id: int
    number: int = 0

    def check(
        self,
        at: int,
        verified: Sequence[str],
        damaged: Sequence[str] = (),
        *,
        read: int | None = None,
        read_bytes: int = 0,
        lasted: int = 0,
    ) -> None:
        """Write down a check that has read these groups, by whose names units are called, too."""
        self.number += 1
        outcome = "failed" if damaged else "passed"
        units = tuple(DamagedUnit(name, Defect.CHANGED, name) for name in damaged)
        count = len(verified) + len(damaged) if read is None else read
        report = Report(
            Finding.DAMAGED, "damaged", count, count, units, (), 0, 0, at - lasted, at, TOOL
        )
        row = {
            "holding": self.id,
            "number": self.number,
            "due": at,
            "ended": at,
            "outcome": outcome,
            "interval": 7,
            "ratio": 0.05,
            "samples": count,
            "overrides": 0,
            "latency": 0.0,
            "gas": 0.0,
            "observation": b"",
            "checked": True,
            "read_bytes": read_bytes,
            "requests": count,
            "lasted": lasted,
            "report": codec.dump(report) if damaged else None,
            "found": len(damaged) if damaged else None,
        }
        with transaction(self.engine) as connection:
            connection.execute(insert(audits).values(row))
            seen = {"number": self.number, "audited": at, "outcome": outcome}
            connection.execute(update(holdings).where(holdings.c.id == self.id).values(seen))
            look = Look(tuple(verified), tuple(damaged), at, None)
            coverage.record_look(connection, self.id, look)

    def list_groups(self, groups: Sequence[Group], now: int, unit: str = "pack") -> None:
        """Write down what there is now; no groups if the tool chooses."""
        extent = Extent(unit, sum(group.units for group in groups), 0, TOOL, tuple(groups))
        with transaction(self.engine) as connection:
            coverage.save_groups(connection, self.id, extent, now)

    def list_whole(self, units: int, now: int) -> None:
        """Write down how much there is, of which the tool chooses what it reads."""
        with transaction(self.engine) as connection:
            coverage.save_groups(connection, self.id, Extent("segment", units, 0, TOOL), now)


def add_checked(
    engine: Engine,
    name: str,
    now: int,
    *,
    units: int = 100,
    unit: str = "pack",
    kind: str = "restic",
    verify_within: int | None = None,
) -> CheckedRows:
    """Put storage that a tool checks on the schedule."""
    record = CheckedRecord(
        name, kind, f"/srv/{name}", {}, name, unit, units, 1000 * units, verify_within
    )
    with transaction(engine) as connection:
        insert_checked(connection, record)
    Schedule(engine).add_checked([(name, units, verify_within or 0)], now)
    with transaction(engine) as connection:
        id_ = connection.execute(select(holdings.c.id).where(holdings.c.name == name)).scalar_one()
    return CheckedRows(engine, name, id_)


def packs(count: int) -> list[Group]:
    return [Group(f"{number:02x}", 1, 1000) for number in range(count)]
