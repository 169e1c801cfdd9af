"""The owner's holdings as audits need them: read for every audit, with one client per node."""

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Self

from holdfast.evidence import leaf
from holdfast.ledger.interface import Ledger, holding_id
from holdfast.node.access import NodeAccess
from holdfast.owner import Home, check_home
from holdfast.owner.catalogue import HoldingRecord
from holdfast.owner.direct.address import is_direct
from holdfast.pdp import Inventory, PublicKey, SecretKey

NodePlace = tuple[str, bytes, str | None]  # a node's URL, its address and its certificate authority


@dataclass(frozen=True)
class OpenHolding:
    """One holding at this moment, and the client of its node."""

    record: HoldingRecord
    key: SecretKey
    inventory: Inventory
    node: NodeAccess

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def address(self) -> bytes:
        return self.record.node

    @property
    def number(self) -> int:
        return self.record.registered_number


class HomeFleet:
    """Holdings of one home. Keys and inventories are kept until they change."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._stack = ExitStack()
        self._catalogue = self._stack.enter_context(home.catalogue())
        self._open: dict[str, OpenHolding] = {}
        self._clients: dict[NodePlace, NodeAccess] = {}
        self._ledgers: dict[int, Ledger] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def holdings(self, names: Collection[str]) -> dict[str, OpenHolding]:
        """Return these holdings as they are now; those that are gone are left out."""
        records = self._catalogue.holdings(names)
        stale = [record for record in records if not self._is_current(record)]
        if stale:
            keys = {record.name: self._key(record) for record in stale}
            inventories = self._catalogue.inventories(
                {name: (key.public.id, key.sectors) for name, key in keys.items()}
            )
            for record in stale:
                name = record.name
                self._open[name] = OpenHolding(
                    record, keys[name], inventories[name], self._client(record)
                )
        return {record.name: self._open[record.name] for record in records}

    def _is_current(self, record: HoldingRecord) -> bool:
        known = self._open.get(record.name)
        return known is not None and known.record == record

    def _key(self, record: HoldingRecord) -> SecretKey:
        known = self._open.get(record.name)
        if known is not None and known.record.salt == record.salt:
            return known.key
        return self._home.keyring.audit_key(record.salt, record.sectors)

    def _client(self, record: HoldingRecord) -> NodeAccess:
        place = (record.url, record.node, record.ca)
        if place not in self._clients:
            self._clients[place] = self._stack.enter_context(self._home.client(record))
        return self._clients[place]

    def ledger(self, sectors: int) -> Ledger:
        if sectors not in self._ledgers:
            self._ledgers[sectors] = self._stack.enter_context(self._home.ledger(sectors))
        return self._ledgers[sectors]

    def any_ledger(self) -> Ledger | None:
        """Return a ledger that roots of evidence can be anchored on, if any holding has one."""
        return next(iter(self._ledgers.values()), None)

    def gas_price(self) -> int:
        ledger = self.any_ledger()
        return 0 if ledger is None else ledger.gas_price()

    def registration(self, name: str, now: int) -> leaf.Registration:
        """Return the leaf with which the evidence records a new holding."""
        subject = self.holdings([name])[name]
        ledger = self.ledger(subject.key.sectors)
        known = self._catalogue.registration(name)
        transaction = (
            None if known is None else leaf.Transaction(known.hash, known.block, known.gas)
        )
        number = holding_id(ledger.sender, subject.number)
        domain, key = ledger.domain, subject.key.public
        holding = leaf.Holding(domain.chain, domain.contract, number, key.id, subject.address)
        return leaf.Registration(now, holding, key.sectors, transaction)

    def nodes(self) -> dict[bytes, Callable[[], NodeAccess]]:
        """Return a function per node address that makes a client of the node.

        Direct holdings are left out: nobody can hide from a challenge there.
        """
        return {
            record.node: partial(self._home.client, record)
            for record in self._catalogue.holdings()
            if not is_direct(record.url)
        }

    def unscheduled(self) -> list[tuple[str, int, PublicKey]]:
        """Return every holding with files that is not audited yet: its name, blocks and key."""
        check_home(self._home.folder)  # it may be gone
        names = [record.name for record in self._catalogue.unscheduled()]
        return [
            (name, holding.inventory.blocks, holding.key.public)
            for name, holding in (self.holdings(names) if names else {}).items()
            if holding.inventory.blocks
        ]
