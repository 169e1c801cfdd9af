"""Opens the ledger that the home's settings name, and registers holdings on it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import atomic, secret_variables
from holdfast.errors import InputError
from holdfast.ledger.interface import (
    Ledger,
    LedgerRefusedError,
    Reason,
    Receipt,
    Registered,
    holding_id,
)
from holdfast.ledger.keccak import keccak
from holdfast.ledger.local import LocalLedger
from holdfast.node.identity import read_owner
from holdfast.owner.settings import EvmSettings, Settings
from holdfast.pdp import PublicKey

KEYSTORE_VARIABLE = secret_variables.KEYSTORE_PASSPHRASE
MAX_PASSPHRASE_BYTES = 4096
MAX_KEYSTORE_BYTES = 1 << 16


@contextmanager
def local_ledger(
    home: Path, sender: bytes, sectors: int, clock: Callable[[], float]
) -> Iterator[Ledger]:
    """Yield the local ledger for holdings of that many sectors."""
    local = LocalLedger(home / f"ledger-{sectors}.db", sender, clock, sectors=sectors)
    try:
        yield local
    finally:
        local.close()


@contextmanager
def evm_ledger(database: str, settings: EvmSettings, sectors: int) -> Iterator[Ledger]:
    """Yield the contract on a chain, whose journal is in that database.

    What a crash left is finished first.
    """
    try:
        # An extra, and a second of imports that a local ledger does without.
        from holdfast.ledger import evm, transactions  # noqa: PLC0415
        from holdfast.ledger.journal import Journal  # noqa: PLC0415
    except ImportError as error:
        raise InputError(
            "an EVM ledger needs more libraries: pip install 'holdfast[evm]'"
        ) from error
    web3 = transactions.connect(settings.url)
    account = transactions.read_account(settings.keystore, keystore_passphrase(settings))
    if (known := evm.recognise(web3, settings.contract)) != sectors:
        raise InputError(f"the contract is for {known} sectors a block, not for {sectors}")
    address = bytes.fromhex(account.address[2:])
    journal = Journal.in_database(database, web3.eth.chain_id, address)
    try:
        sender = transactions.Sender(web3, account, journal, transactions.Terms())
        chain = evm.EvmLedger(sender, settings.contract, sectors=sectors)
        chain.reconcile()
        yield chain
    finally:
        journal.close()


def ensure_registered(ledger: Ledger, public: PublicKey, node: bytes) -> tuple[int, Receipt | None]:
    """Register the holding with that key unless it is; return its number.

    An owner's holdings are numbered in order, so one that a crash left unrecorded is there. Then
    there is no receipt.
    """
    number = 0
    while (known := _key(ledger, number)) is not None:
        if known == public:
            return number, None
        number += 1
    receipt = ledger.register(public, node)
    for event in receipt.events:
        if isinstance(event, Registered):
            return event.holding - holding_id(ledger.sender, 0), receipt
    raise AssertionError("a registration has its event")


def _key(ledger: Ledger, number: int) -> PublicKey | None:
    try:
        return ledger.key(holding_id(ledger.sender, number))
    except LedgerRefusedError as error:
        if error.reason is Reason.UNKNOWN:
            return None
        raise


def public_sender(home: Path, settings: Settings) -> bytes | None:
    """Return the address that acts on the home's ledger, from what is not secret; None if unknown.

    On a local ledger it is the owner's own, on a chain the keystore's, if its file names it.
    """
    if settings.evm is None:
        path = home / "owner.pub"
        return keccak(read_owner(str(path)))[12:] if path.exists() else None
    try:
        content = atomic.read(settings.evm.keystore, at_most=MAX_KEYSTORE_BYTES)
        address: str = json.loads(content).get("address")
        return bytes.fromhex(address.removeprefix("0x"))
    except (InputError, ValueError, AttributeError):
        return None


def keystore_passphrase(settings: EvmSettings) -> bytes:
    if settings.passphrase_file is not None:
        content = atomic.read(settings.passphrase_file, at_most=MAX_PASSPHRASE_BYTES)
        return content.removesuffix(b"\n").removesuffix(b"\r")
    given = secret_variables.secret(KEYSTORE_VARIABLE)
    if given is None:
        raise InputError(
            f"no passphrase for {settings.keystore}: set {KEYSTORE_VARIABLE}, or name a "
            "passphrase_file in holdfast.toml"
        )
    return given
