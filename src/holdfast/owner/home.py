"""The owner's home: a folder with the owner's key, settings and database.

owner.key        the one secret, sealed
owner.pub        the public key, by which nodes know the owner
holdfast.toml    settings, if there are any
holdings/SALT/   tags on their way, and those of a direct holding, in a folder for each holding; or
                 what its checker keeps
ledger-16.db     the local ledger for holdings of 16 sectors a block

and, unless the settings name a PostgreSQL database:

holdfast.db      holdings, files, the schedule, the evidence, transactions on a chain
NAME.lock        locked by the process that changes the holding

Only its owner may read what is made here, whatever the mode of the folder and the umask.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import parse_qs, urlsplit

from holdfast import atomic
from holdfast.errors import InputError, RefusedError, StorageError
from holdfast.ledger.interface import Ledger
from holdfast.node.access import NodeAccess
from holdfast.node.client import NodeClient
from holdfast.node.identity import encode_owner, read_owner
from holdfast.owner.catalogue import Catalogue, HoldingRecord
from holdfast.owner.checked import HOLDINGS
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.client import DirectClient
from holdfast.owner.direct.commit import finish_commit
from holdfast.owner.holding import Holding, HoldingLostError
from holdfast.owner.keyring import Keyring, read_keyring, write_keyring
from holdfast.owner.ledgers import evm_ledger, local_ledger
from holdfast.owner.settings import DATABASE, Settings, read_settings
from holdfast.pdp.sealing import DEFAULT_COST, ScryptCost

OnLost = Callable[[Holding], None]
KEY, PUBLIC = "owner.key", "owner.pub"


class HoldingPlace(Protocol):
    """Where a holding is, and what its keys are derived from."""

    @property
    def url(self) -> str: ...
    @property
    def node(self) -> bytes: ...
    @property
    def ca(self) -> str | None: ...
    @property
    def salt(self) -> bytes: ...
    @property
    def sectors(self) -> int: ...


@dataclass(frozen=True)
class Home:
    folder: Path
    keyring: Keyring
    settings: Settings
    clock: Callable[[], float] = time.time

    @classmethod
    def create(cls, folder: Path, passphrase: bytes, cost: ScryptCost = DEFAULT_COST) -> Self:
        """Make a new home; one that is there already is left as it is."""
        check_new(folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        keyring = Keyring.generate()
        atomic.write(folder / PUBLIC, encode_owner(keyring.owner), mode=atomic.PRIVATE)
        write_keyring(folder / KEY, keyring, passphrase, cost)
        return cls(folder, keyring, read_settings(folder))

    @classmethod
    def open(cls, folder: Path, passphrase: bytes) -> Self:
        check_home(folder)
        return cls(folder, read_keyring(folder / KEY, passphrase), read_settings(folder))

    def catalogue(self) -> AbstractContextManager[Catalogue]:
        check_home(self.folder)
        check_database(self.folder, self.address)
        return closing(Catalogue.open(self.address))

    @property
    def address(self) -> str:
        """The address of the home's database."""
        return database_address(self.folder, self.settings.database, self.keyring.owner)

    def ledger(self, sectors: int) -> AbstractContextManager[Ledger]:
        sender, evm = self.keyring.sender, self.settings.evm
        if evm is not None:
            return evm_ledger(self.address, evm, sectors)
        return local_ledger(self.folder, sender, sectors, self.clock)

    def client(self, place: HoldingPlace) -> NodeAccess:
        """Return a client of the node that a holding is on, or the node of a direct holding."""
        direct = DirectAddress.parse(place.url)
        if direct is None:
            authority = Path(place.ca) if place.ca else None
            return NodeClient(place.url, self.keyring.request_key, place.node, authority=authority)
        return DirectClient(
            direct,
            self.keyring.owner,
            self.keyring.node_key(place.salt),
            self.keyring.audit_key(place.salt, place.sectors),
            self._folder_of(place),
        )

    @contextmanager
    def holding(self, name: str, catalogue: Catalogue | None = None) -> Iterator[Holding]:
        """Yield a holding and the way to its node; it may share a catalogue with others."""
        with ExitStack() as stack:
            if catalogue is None:
                catalogue = stack.enter_context(self.catalogue())
            record = catalogue.holding(name)
            node = stack.enter_context(self.client(record))
            key = self.keyring.audit_key(record.salt, record.sectors)
            secret = self.keyring.cipher_secret(record.salt) if record.encrypted else None
            folder, owner = self._folder_of(record), self.keyring.owner
            yield Holding(record, key, secret, folder, catalogue, node, owner)

    @contextmanager
    def changing(
        self, name: str, *, wait: bool = True, on_lost: OnLost | None = None
    ) -> Iterator[Holding]:
        """Yield a holding that nobody else changes meanwhile, in agreement with its node.

        If another process changes it, wait or raise. If the node has lost it, `on_lost` is called
        to put it there again.
        """
        with ExitStack() as stack:
            catalogue = stack.enter_context(self.catalogue())
            catalogue.holding(name)  # or there is none
            try:
                stack.enter_context(catalogue.locked(name, wait=wait))
            except BlockingIOError as error:
                raise RefusedError(
                    f"holding {name!r} is being changed by another process: try again"
                ) from error
            # Opened under the lock: it may have been moved, renamed or removed before.
            holding = stack.enter_context(self.holding(name, catalogue))
            if isinstance(holding.node, DirectClient):
                finish_commit(holding, holding.node)
            try:
                holding.reconcile()
            except HoldingLostError:
                if on_lost is None or isinstance(holding.node, DirectClient):
                    raise
                on_lost(holding)
                holding.reconcile()
            holding.sweep()
            yield holding

    def _folder_of(self, place: HoldingPlace) -> Path:
        folder = self.folder / HOLDINGS / place.salt.hex()  # which outlasts the name
        atomic.make_directory(folder / "tags", mode=atomic.PRIVATE_FOLDER)
        return folder


def discard_tags(folder: Path, record: HoldingRecord) -> None:
    """Delete the tags on their way to a holding that was removed."""
    shutil.rmtree(folder / HOLDINGS / record.salt.hex(), ignore_errors=True)


def check_new(folder: Path) -> None:
    if (folder / KEY).exists():
        raise InputError(f"{folder} is an owner's home already: name another --home")


def check_home(folder: Path) -> None:
    if not (folder / KEY).exists():
        raise InputError(f"{folder} is no owner's home: `holdfast init` makes one")


def catalogue_in(folder: Path) -> AbstractContextManager[Catalogue]:
    """Open a home's catalogue, which is not secret."""
    check_home(folder)
    address = address_in(folder, read_settings(folder).database)
    check_database(folder, address)
    return closing(Catalogue.open(address))


def check_database(folder: Path, address: str) -> None:
    """Raise if the home has holdings, but the file of its database is gone or empty."""
    if "://" in address or not any((folder / HOLDINGS).glob("*")):
        return
    if not (file := Path(address)).exists() or not file.stat().st_size:
        raise StorageError(f"{file} is lost, though the home has holdings: restore a backup")


def address_in(folder: Path, database: str) -> str:
    """Return the address of a home's database, without opening the home."""
    own = "://" in database and not _names_schema(database)
    return database_address(folder, database, read_owner(str(folder / PUBLIC)) if own else b"")


def database_address(folder: Path, database: str, owner: bytes) -> str:
    """Return a file's path, or an address of PostgreSQL, where every owner has its own schema."""
    if "://" not in database:
        return str(folder / database)
    if (folder / DATABASE).exists():
        raise InputError(
            f"{folder} has its database in a file: take database out of [home], or restore a "
            "backup with the new settings"
        )
    if _names_schema(database):
        return database
    return f"{database}{'&' if '?' in database else '?'}schema=holdfast_{owner.hex()[:16]}"


def _names_schema(database: str) -> bool:
    return "schema" in parse_qs(urlsplit(database).query)
