"""An owner's anchors and registrations, read from the ledger itself.

The person who verifies gives the owner's address, as they give the log's key: a log must not name
the account by which it is judged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import InputError
from holdfast.evidence.checkpoint import Anchor, Checkpoint
from holdfast.ledger.interface import (
    Anchored,
    Domain,
    LedgerRefusedError,
    Reason,
    Registered,
    owner_of,
)
from holdfast.ledger.local_reader import CHAIN
from holdfast.ledger.reader import ChainReader, FileReader, LedgerReader
from holdfast.pdp import encoding

ADDRESS_BYTES = 20


@dataclass(frozen=True)
class LedgerAnchor:
    """One anchor on a ledger."""

    transaction: bytes
    block: int
    size: int
    root: bytes


@dataclass(frozen=True)
class LedgerRegistration:
    """One registered holding on a ledger."""

    transaction: bytes
    node: bytes


class OnChain:
    """One owner's anchors on one ledger, and all registrations there, from block `since` on.

    Open a log that still grows after this: `anchors` are those that it must fit.
    """

    def __init__(self, reader: LedgerReader, owner: bytes, since: int = 0) -> None:
        self.ledger, self.since = reader.domain, since
        self._reader, self._owner, self._next_block = reader, owner, since
        self._registrations: dict[int, LedgerRegistration] = {}
        self.anchors = frozenset(self._read())
        self._claims = _claims(self.anchors)
        self._complete = False

    @property
    def name(self) -> str:
        return ledger_name(self.ledger)

    def has(self, checkpoint: Checkpoint, anchor: Anchor) -> bool:
        """Return whether the claimed transaction anchored this root and size.

        The log may have grown since the ledger was read, so the first miss reads once more. The
        block isn't compared: a reorganisation can move a transaction.
        """
        claim = (anchor.transaction, checkpoint.size, checkpoint.root)
        if claim not in self._claims and not self._complete:
            self._complete = True
            self._claims |= _claims(self._read())
        return claim in self._claims

    def registration(self, holding: int) -> LedgerRegistration | None:
        return self._registrations.get(holding)

    def key_id(self, holding: int) -> bytes | None:
        """Return the id of the key under which a holding is registered, None if it isn't."""
        try:
            return self._reader.key(holding).id
        except LedgerRefusedError as error:
            if error.reason is Reason.UNKNOWN:
                return None
            raise

    def time(self, anchor: LedgerAnchor) -> int:
        """Return when an anchor was made, in milliseconds since 1970."""
        return 1000 * self._reader.time(anchor.block)

    def _read(self) -> list[LedgerAnchor]:
        """Return the owner's anchors from the next block on, and keep the registrations."""
        anchors = []
        for receipt in self._reader.receipts(self._next_block):
            self._next_block = max(self._next_block, receipt.block)
            for event in receipt.events:
                if isinstance(event, Anchored) and event.owner == self._owner:
                    where = (receipt.transaction, receipt.block)
                    anchors.append(LedgerAnchor(*where, event.size, event.root))
                elif isinstance(event, Registered):
                    registration = LedgerRegistration(receipt.transaction, event.node)
                    self._registrations[event.holding] = registration
        return anchors


def _claims(anchors: Iterable[LedgerAnchor]) -> set[tuple[bytes, int, bytes]]:
    return {(anchor.transaction, anchor.size, anchor.root) for anchor in anchors}


def ledger_name(ledger: Domain) -> str:
    contract = f"0x{ledger.contract.hex()}"
    if ledger.chain == CHAIN:
        return f"local ledger {contract}"
    return f"chain {ledger.chain}, contract {contract}"


def only_owner(reader: LedgerReader) -> bytes:
    """Return the one owner who has used a ledger; raise if several have."""
    owners = set()
    for receipt in reader.receipts():
        for event in receipt.events:
            if isinstance(event, Anchored):
                owners.add(event.owner)
            elif isinstance(event, Registered):
                owners.add(owner_of(event.holding))
    if len(owners) != 1:
        count = f"{len(owners)} owners" if owners else "no owner"
        raise InputError(f"{ledger_name(reader.domain)} has {count}: name one by --owner")
    return owners.pop()


def named_ledgers(
    chain: str | None,
    contracts: Sequence[str],
    files: Sequence[Path],
    owner: str | None,
    since: int = 0,
) -> list[OnChain]:
    """Return the owner's anchors on the contracts of a chain and on local ledgers."""
    if (chain is None) != (not contracts):
        raise InputError("--chain and --contract belong together: give both")
    if chain is not None and owner is None:
        raise InputError("--chain needs --owner, the address that anchors the log")
    if owner is not None and chain is None and not files:
        raise InputError("--owner needs a ledger: give --chain and --contract, or --ledger")
    address = None if owner is None else _address(owner, "--owner")
    ledgers = []
    for path in files:
        reader = FileReader(path)
        ledgers.append(OnChain(reader, only_owner(reader) if address is None else address))
    if chain is not None and address is not None:
        for contract in contracts:
            connection = ChainReader.connect(chain, _address(contract, "--contract"))
            ledgers.append(OnChain(connection, address, since))
    return ledgers


def _address(text: str, name: str) -> bytes:
    return encoding.unhex(text.removeprefix("0x").lower(), ADDRESS_BYTES, name)
