"""Creates a holding: pins its node, makes its key, and registers it with node and ledger."""

import re
import secrets
from pathlib import Path

from holdfast.errors import InputError
from holdfast.ledger.interface import holding_id
from holdfast.node.client import greet
from holdfast.node.objects import open_objects
from holdfast.owner.catalogue import Catalogue, HoldingRecord, RegistrationRecord
from holdfast.owner.checked import check_free
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.enrolment import list_enrollable
from holdfast.owner.direct.storage import DirectStorage
from holdfast.owner.home import Home
from holdfast.owner.keyring import SALT_BYTES
from holdfast.owner.ledgers import ensure_registered

GREETING_TIMEOUT_SECONDS = 10.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def add_holding(
    home: Home,
    name: str,
    url: str,
    *,
    sectors: int,
    encrypted: bool,
    ca: str | None = None,
    address: bytes | None = None,
) -> HoldingRecord:
    """Make a holding on the node at that URL, or finish one that a crash left half made.

    The node's address is pinned. If `address` is given, the node must have it.
    """
    check_name(name)
    with home.catalogue() as catalogue:
        record = next((known for known in catalogue.holdings() if known.name == name), None)
        if record is None:
            with catalogue.transaction() as connection:
                check_free(connection, name)
            pinned = address_to_pin(url, ca, address)
            salt = secrets.token_bytes(SALT_BYTES)
            record = HoldingRecord(name, url, pinned, ca, salt, sectors, encrypted)
        elif record.number is not None:
            raise InputError(f"there is a holding {name!r} already: choose another name")
        return _register(home, catalogue, record)


def add_direct(home: Home, name: str, address: DirectAddress, *, sectors: int) -> HoldingRecord:
    """Make a direct holding, without any objects yet, or finish one that is half made.

    Nothing is saved if there are no objects at the address, or they can't be read.
    """
    check_name(name)
    with home.catalogue() as catalogue:
        record = next((known for known in catalogue.holdings() if known.name == name), None)
        if record is None:
            list_enrollable(DirectStorage(address))
            if address.beside:
                check_writable(address)
            salt = secrets.token_bytes(SALT_BYTES)
            node = home.keyring.node_key(salt).address
            record = HoldingRecord(name, address.url, node, None, salt, sectors, encrypted=False)
        elif record.url != address.url or record.revision:
            raise InputError(
                f"there is a holding {name!r} already: choose another name, or let `holdfast "
                f"holding refresh {name}` enrol new objects"
            )
        if record.number is not None:
            return record
        return _register(home, catalogue, record)


def check_writable(address: DirectAddress) -> None:
    """Raise unless tags can be written beside the data."""
    place = open_objects(address.tags)
    place.claim()
    place.release()


def _register(home: Home, catalogue: Catalogue, record: HoldingRecord) -> HoldingRecord:
    """Register a holding with its node and the ledger."""
    public = home.keyring.audit_key(record.salt, record.sectors).public
    with home.client(record) as node, home.ledger(record.sectors) as ledger:
        node.holdings()  # or it refuses us, before anything is written down
        catalogue.add_holding(record)
        number, receipt = ensure_registered(ledger, public, record.node)
        if receipt is not None:
            where = (receipt.transaction, receipt.block, receipt.gas)
            catalogue.record_registration(record.name, RegistrationRecord(*where))
        node.create(public, holding_id(ledger.sender, number))
    catalogue.number_holding(record.name, number)
    return catalogue.holding(record.name)


def check_name(name: str) -> None:
    """Raise if this can't be the name of a holding."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} can't be the name of a holding: letters, digits, '.', '_' and '-', at "
            "most 64, beginning with a letter or digit"
        )


def address_to_pin(url: str, ca: str | None, expected: bytes | None) -> bytes:
    """Return the address by which the node at that URL is known from now on."""
    facts = greet(url, authority=Path(ca) if ca else None, timeout=GREETING_TIMEOUT_SECONDS).facts
    address = bytes.fromhex(facts.address)
    if expected not in {None, address}:
        raise InputError(f"the node at {url} has the address {address.hex()}, not the one expected")
    return address
