"""The owner's home, a folder.

owner.key        the one secret, sealed
owner.pub        what nodes know the owner by
catalogue.db     holdings, files, what is under way
holdfast.toml    settings, if there are any
ledger-16.db     the local ledger for holdings of 16 sectors a block
holdings/NAME/   the journal of what was tagged, tags on their way, a lock
"""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from holdfast import atomic
from holdfast.errors import InputError, RefusedError
from holdfast.ledger.interface import Ledger
from holdfast.node.client import NodeClient
from holdfast.node.identity import encode_owner
from holdfast.owner.catalogue import Catalogue
from holdfast.owner.holding import Holding
from holdfast.owner.keyring import Keyring, read_keyring, write_keyring
from holdfast.owner.ledgers import opened_ledger
from holdfast.owner.settings import Settings, read_settings
from holdfast.pdp.sealing import DEFAULT_COST, ScryptCost

KEY, PUBLIC, CATALOGUE = "owner.key", "owner.pub", "catalogue.db"


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
        atomic.write(folder / PUBLIC, encode_owner(keyring.owner))
        write_keyring(folder / KEY, keyring, passphrase, cost)
        return cls(folder, keyring, read_settings(folder))

    @classmethod
    def open(cls, folder: Path, passphrase: bytes) -> Self:
        check_home(folder)
        return cls(folder, read_keyring(folder / KEY, passphrase), read_settings(folder))

    def catalogue(self) -> AbstractContextManager[Catalogue]:
        return catalogue_in(self.folder)

    def ledger(self, sectors: int) -> AbstractContextManager[Ledger]:
        sender = self.keyring.sender
        return opened_ledger(self.folder, self.settings, sender, sectors, self.clock)

    def client(self, url: str, node: bytes, ca: str | None) -> NodeClient:
        authority = Path(ca) if ca else None
        return NodeClient(url, self.keyring.request_key, node, authority=authority)

    @contextmanager
    def holding(self, name: str) -> Iterator[Holding]:
        """Yield a holding and the way to its node."""
        with self.catalogue() as catalogue:
            record = catalogue.holding(name)
            with self.client(record.url, record.node, record.ca) as node:
                key = self.keyring.audit_key(record.salt, record.sectors)
                secret = self.keyring.cipher_secret(record.salt) if record.encrypted else None
                folder, owner = self._folder_of(name), self.keyring.owner
                yield Holding(record, key, secret, folder, catalogue, node, owner)

    @contextmanager
    def changing(self, name: str, *, wait: bool = True) -> Iterator[Holding]:
        """Yield a holding that nobody else changes meanwhile, in agreement with its node.

        Wait for whoever does, or raise.
        """
        with self.holding(name) as holding, (holding.folder / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise RefusedError(
                    f"holding {name!r} is being changed by another process: try again"
                ) from error
            holding.reconcile()
            holding.sweep()
            yield holding

    def _folder_of(self, holding: str) -> Path:
        folder = self.folder / "holdings" / holding
        (folder / "tags").mkdir(parents=True, exist_ok=True)
        return folder


def check_new(folder: Path) -> None:
    if (folder / KEY).exists():
        raise InputError(f"{folder} is an owner's home already: name another --home")


def check_home(folder: Path) -> None:
    if not (folder / KEY).exists():
        raise InputError(f"{folder} is no owner's home: `holdfast init` makes one")


def catalogue_in(folder: Path) -> AbstractContextManager[Catalogue]:
    """Open a home's catalogue, which is not secret."""
    check_home(folder)
    return closing(Catalogue(folder / CATALOGUE))
