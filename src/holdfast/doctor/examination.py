"""The whole examination of a home: each part by itself, so that no fault hides another."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.control.evidence.anchors import first_block
from holdfast.control.service import check_settings
from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.doctor import clock as clocks
from holdfast.doctor import database, disk, evidence, keys, ledger, nodes, versions
from holdfast.doctor.clock import Reference
from holdfast.doctor.finding import Check, Grade, fault, guarded, ok, one_line, skipped
from holdfast.doctor.nodes import StoredHolding
from holdfast.errors import HoldfastError
from holdfast.ledger import local
from holdfast.ledger.interface import Receipt
from holdfast.owner.home import KEY, catalogue_in
from holdfast.owner.keyring import Keyring
from holdfast.owner.ledgers import public_sender
from holdfast.owner.settings import Settings, read_settings
from holdfast.storage.database import Standing, connected, standing_of

SETTINGS = "settings"


@dataclass(frozen=True)
class World:
    """What is around a home: the time, and the disk."""

    clock: Callable[[], float] = time.time
    statvfs: disk.StatVfs = os.statvfs


def examine(folder: Path, passphrase: bytes | None, world: World | None = None) -> list[Check]:
    """Return what every check of the home found."""
    world = world or World()
    settings, control, found = _settings(folder)
    keyring, opened_keys = keys.opened(folder, passphrase)
    found += versions.look(settings, control)
    found += [*opened_keys, *keys.modes(folder, _secrets(folder, settings))]
    if settings is None or control is None:
        found += disk.look([folder], world.statvfs)
        parts = ("database", "evidence", "ledger", "nodes", "clock")
        return [*found, *(skipped(part, "the settings can't be read") for part in parts)]
    found += disk.look(_folders(folder, control), world.statvfs)
    return [*found, *_Examination(folder, settings, control, keyring, world).checks()]


def _settings(folder: Path) -> tuple[Settings | None, ControlSettings | None, list[Check]]:
    cure = f"correct {folder / 'holdfast.toml'}; docs/control.md tells every key"
    try:
        settings, control = read_settings(folder), read_control(folder)
        control.address(folder)
    except HoldfastError as error:
        return None, None, [fault(SETTINGS, one_line(str(error)), cure)]
    try:
        check_settings(control, folder)
    except HoldfastError as error:
        return settings, control, [fault(SETTINGS, one_line(str(error)), cure)]
    found = f"holdfast.toml can be used; the policy is {control.policy}"
    return settings, control, [ok(SETTINGS, found)]


def _secrets(folder: Path, settings: Settings | None) -> list[Path]:
    evm = settings.evm if settings else None
    named = [] if evm is None else [evm.keystore, evm.passphrase_file]
    return [folder / KEY, *(each for each in named if each is not None)]


def _folders(folder: Path, control: ControlSettings) -> list[Path]:
    address = control.address(folder)
    beside = [] if "://" in address else [Path(address).parent]
    return [folder, *(each for each in beside if each.is_dir())]


@dataclass(frozen=True)
class _Examination:
    """What is to be looked at where the settings can be read."""

    folder: Path
    settings: Settings
    control: ControlSettings
    keyring: Keyring | None
    world: World

    def checks(self) -> Iterator[Check]:
        address = self.control.address(self.folder)
        cure = "start the database, or correct its address in holdfast.toml"
        stored = guarded(database.PART, partial(database.look, address), cure)
        yield from stored
        holdings, trouble = self._holdings(address)
        yield from trouble
        sectors = {each.record.sectors for each in holdings if each.record.number is not None}
        references: list[Reference] = []
        on_ledger = self._ledger(sectors, references)
        yield from on_ledger
        yield from self._evidence(address, stored, on_ledger, sectors)
        for seen in nodes.look(holdings, self.keyring, self.world.clock):
            yield from seen.checks
            references += [seen.reference] if seen.reference else []
        yield from clocks.look(references)

    def _holdings(self, address: str) -> tuple[list[StoredHolding], list[Check]]:
        try:
            if standing_of(address)[0] in {None, Standing.EMPTY}:
                return [], [ok("holdings", "there are none yet: `holdfast holding add NAME URL`")]
            with catalogue_in(self.folder) as catalogue:
                records = catalogue.holdings()
                files = {each.name: catalogue.files(each.name) for each in records}
                busy = {each.name for each in records if catalogue.intents(each.name)}
        except HoldfastError as error:
            cure = "bring the catalogue back from a backup: `holdfast restore BACKUP --home DIR`"
            return [], [fault("holdings", one_line(str(error)), cure)]
        kept = [StoredHolding(each, files[each.name], each.name in busy) for each in records]
        return kept, [ok("holdings", f"{len(kept)} in the catalogue")]

    def _ledger(self, sectors: set[int], references: list[Reference]) -> list[Check]:
        evm, clock = self.settings.evm, self.world.clock

        def look() -> list[Check]:
            if evm is None:
                seen = ledger.look_at_files(self.folder, sectors, clock)
            else:
                seen = ledger.look_at_chain(self.folder, self.settings, evm, sectors, clock)
            references.extend([seen.reference] if seen.reference else [])
            return seen.checks

        return guarded(ledger.PART, look, "correct [ledger] in holdfast.toml")

    def _evidence(
        self, address: str, stored: list[Check], on_ledger: list[Check], sectors: set[int]
    ) -> list[Check]:
        if any(each.grade is not Grade.OK for each in stored):
            return [skipped(evidence.PART, "the database can't be read")]
        if standing_of(address)[0] in {None, Standing.EMPTY}:
            return [ok(evidence.PART, "nothing is recorded yet")]
        sound = all(each.grade is not Grade.FAULT for each in on_ledger)

        def history(since: int) -> list[Receipt]:
            if not sound:
                return []
            if self.settings.evm is None:
                paths = (self.folder / f"ledger-{number}.db" for number in sectors)
                return [receipt for path in paths for receipt in local.history(path, since)]
            return ledger.history_of(self.settings.evm, max(since, first_block(self.folder)))

        def look() -> list[Check]:
            with connected(address, read_only=True) as engine:
                who = self._sender()
                return list(evidence.look(self.folder, engine, self.keyring, history, who))

        return guarded(evidence.PART, look, f"{evidence.VERIFY} an older log")

    def _sender(self) -> bytes | None:
        """Return who anchors; on local ledgers that is the owner, known by either key."""
        if self.settings.evm is None and self.keyring is not None:
            return self.keyring.sender
        return public_sender(self.folder, self.settings)
