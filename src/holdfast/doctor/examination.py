"""Runs all checks of a home, part by part, so that no fault hides another."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.control.evidence.anchors import first_block
from holdfast.control.queries.fleet import last_outcomes
from holdfast.control.queries.reports import read_last_reason
from holdfast.control.running_services import is_service_running
from holdfast.control.service import check_settings
from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.doctor import checked_storage, database, disk, evidence, keys, ledger, nodes, versions
from holdfast.doctor import clock as clocks
from holdfast.doctor.checked_storage import LastChecks
from holdfast.doctor.clock import Reference
from holdfast.doctor.finding import (
    Check,
    Grade,
    fault,
    ok,
    one_line,
    run_check,
    skipped,
    warning,
)
from holdfast.doctor.nodes import StoredHolding
from holdfast.errors import HoldfastError
from holdfast.evidence.leaf import Outcome
from holdfast.ledger import local_reader
from holdfast.ledger.interface import Receipt
from holdfast.owner.checked import CheckedRecord, list_checked
from holdfast.owner.home import KEY, catalogue_in
from holdfast.owner.keyring import Keyring
from holdfast.owner.ledgers import public_sender
from holdfast.owner.settings import Settings, read_settings
from holdfast.storage.database import Standing, open_engine, standing_of, transaction

SETTINGS = "settings"
FREE_SPACE = "free space on the disk, then run `holdfast doctor` again"


@dataclass(frozen=True)
class World:
    """What a home depends on: the time, and the disk."""

    clock: Callable[[], float] = time.time
    statvfs: disk.StatVfs = os.statvfs


def examine(folder: Path, passphrase: bytes | None, world: World | None = None) -> list[Check]:
    """Return the results of all checks of the home."""
    world = world or World()
    settings, control, checks = _settings(folder)
    keyring, key_checks = keys.open_keyring(folder, passphrase)
    checks += versions.check(settings, control)
    checks += [*key_checks, *keys.check_modes(folder, _secrets(folder, settings))]
    if settings is None or control is None:
        checks += disk.check([folder], world.statvfs)
        parts = ("database", "evidence", "ledger", "nodes", "clock")
        return [*checks, *(skipped(part, "the settings can't be read") for part in parts)]
    space = list(disk.check(_folders(folder, control), world.statvfs))
    full = any(check.grade is Grade.FAULT for check in space)
    examination = _Examination(folder, settings, control, keyring, world, full=full)
    return [*checks, *space, *examination.checks()]


def _settings(folder: Path) -> tuple[Settings | None, ControlSettings | None, list[Check]]:
    cure = f"correct {folder / 'holdfast.toml'}; docs/control.md lists every key"
    try:
        settings, control = read_settings(folder), read_control(folder)
        control.address(folder)
    except HoldfastError as error:
        return None, None, [fault(SETTINGS, one_line(str(error)), cure)]
    try:
        check_settings(control, folder)
    except HoldfastError as error:
        return settings, control, [fault(SETTINGS, one_line(str(error)), cure)]
    exists = (folder / "holdfast.toml").exists()
    file = "holdfast.toml is valid" if exists else "there is no holdfast.toml: defaults apply"
    message = f"{file}; the policy is {control.policy}"
    return settings, control, [ok(SETTINGS, message)]


def _secrets(folder: Path, settings: Settings | None) -> list[Path]:
    evm = settings.evm if settings else None
    named = [] if evm is None else [evm.keystore, evm.passphrase_file]
    return [folder / KEY, *(path for path in named if path is not None)]


def _folders(folder: Path, control: ControlSettings) -> list[Path]:
    address = control.address(folder)
    beside = [] if "://" in address else [Path(address).parent]
    return [folder, *(parent for parent in beside if parent.is_dir())]


@dataclass(frozen=True)
class _Examination:
    """The checks of a home whose settings can be read."""

    folder: Path
    settings: Settings
    control: ControlSettings
    keyring: Keyring | None
    world: World
    full: bool  # whether a disk of the home is

    def _cure(self, cure: str) -> str:
        """Return how to fix what can't be read; on a full disk there is one fix to try first."""
        return FREE_SPACE if self.full else cure

    def checks(self) -> Iterator[Check]:
        address = self.control.address(self.folder)
        cure = "start the database, correct its address in holdfast.toml, or restore a backup"
        check = partial(database.check, self.folder, address)
        stored = run_check(database.PART, check, self._cure(cure))
        yield from stored
        holdings, trouble = self._holdings(address)
        yield from trouble
        sectors = {
            holding.record.sectors for holding in holdings if holding.record.number is not None
        }
        references: list[Reference] = []
        on_ledger = self._ledger(sectors, references)
        yield from on_ledger
        yield from self._evidence(address, stored, on_ledger, sectors)
        checked, last = self._checked(address)
        yield from checked_storage.check(checked, last, self.control)
        if holdings or checked:
            yield self._service()
        for state in nodes.check(holdings, self.keyring, self.world.clock):
            yield from state.checks
            references += [state.reference] if state.reference else []
        yield from clocks.check(references)

    def _holdings(self, address: str) -> tuple[list[StoredHolding], list[Check]]:
        try:
            if standing_of(address)[0] in {None, Standing.EMPTY}:
                return [], [ok("holdings", "there are none yet: `holdfast holding add NAME URL`")]
            with catalogue_in(self.folder) as catalogue:
                records = catalogue.holdings()
                files = {record.name: catalogue.files(record.name) for record in records}
                busy = {record.name for record in records if catalogue.intents(record.name)}
            with open_engine(address, read_only=True) as engine, transaction(engine) as connection:
                outcomes, checked = last_outcomes(connection), len(list_checked(connection))
        except HoldfastError as error:
            cure = "bring the catalogue back from a backup: `holdfast restore BACKUP --home DIR`"
            return [], [fault("holdings", one_line(str(error)), self._cure(cure))]
        stored = [
            StoredHolding(
                record, files[record.name], record.name in busy, outcomes.get(record.name)
            )
            for record in records
        ]
        others = f", {checked} that tools check" if checked else ""
        return stored, [ok("holdings", f"{len(stored)} in the catalogue{others}")]

    def _service(self) -> Check:
        if is_service_running(self.folder):
            return ok("service", "it is running")
        is_shared = "://" in self.control.address(self.folder)
        where = " on this machine" if is_shared else ""
        return warning("service", f"no service is running{where}", "start `holdfast serve`")

    def _checked(self, address: str) -> tuple[list[CheckedRecord], LastChecks]:
        """Return storage that tools check, and how its last checks ended."""
        try:
            if standing_of(address)[0] is not Standing.CURRENT:
                return [], LastChecks({}, {})
            with open_engine(address, read_only=True) as engine, transaction(engine) as connection:
                records, outcomes = list_checked(connection), last_outcomes(connection)
                reasons = {
                    record.name: read_last_reason(connection, record.scheduled)
                    for record in records
                    if record.scheduled and outcomes.get(record.name) == Outcome.UNKNOWN
                }
                return records, LastChecks(outcomes, reasons)
        except HoldfastError:  # the check of the holdings says so
            return [], LastChecks({}, {})

    def _ledger(self, sectors: set[int], references: list[Reference]) -> list[Check]:
        evm, clock = self.settings.evm, self.world.clock

        def check() -> list[Check]:
            if evm is None:
                state = ledger.check_files(self.folder, sectors, clock)
            else:
                state = ledger.check_chain(self.folder, self.settings, evm, sectors, clock)
            references.extend([state.reference] if state.reference else [])
            return state.checks

        return run_check(ledger.PART, check, self._cure("correct [ledger] in holdfast.toml"))

    def _evidence(
        self, address: str, stored: list[Check], on_ledger: list[Check], sectors: set[int]
    ) -> list[Check]:
        if any(check.grade is not Grade.OK for check in stored):
            return [skipped(evidence.PART, "the database can't be read")]
        if standing_of(address)[0] in {None, Standing.EMPTY}:
            return [ok(evidence.PART, "nothing is recorded yet")]
        sound = all(check.grade is not Grade.FAULT for check in on_ledger)

        def history(since: int) -> list[Receipt]:
            if not sound:
                return []
            if self.settings.evm is None:
                paths = (self.folder / f"ledger-{number}.db" for number in sectors)
                return [receipt for path in paths for receipt in local_reader.history(path, since)]
            return ledger.history_of(self.settings.evm, max(since, first_block(self.folder)))

        def check() -> list[Check]:
            with open_engine(address, read_only=True) as engine:
                who = self._sender()
                return list(evidence.check(self.folder, engine, self.keyring, history, who))

        return run_check(evidence.PART, check, self._cure(f"{evidence.VERIFY} an older log"))

    def _sender(self) -> bytes | None:
        """Return who anchors; on local ledgers that is the owner, known by either key."""
        if self.settings.evm is None and self.keyring is not None:
            return self.keyring.sender
        return public_sender(self.folder, self.settings)
