"""The owner's open holdings: each is opened once and stays open for audits."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Self

from holdfast.evidence import leaf
from holdfast.ledger.interface import Ledger, holding_id
from holdfast.node.client import NodeClient
from holdfast.owner import Holding, Home, check_home
from holdfast.pdp import PublicKey

MAX_OPEN = 512


class HomeFleet:
    """Holdings of one home; they close with the fleet."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._stack = ExitStack()
        # Shared by all holdings: each connection to PostgreSQL is a process there.
        self._catalogue = self._stack.enter_context(home.catalogue())
        self._open: OrderedDict[str, tuple[ExitStack, Holding]] = OrderedDict()
        self._ledgers: dict[int, Ledger] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.popitem()[1][0].close()
        self._stack.close()

    def subject(self, name: str) -> Holding:
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name][1]
        stack = ExitStack()
        holding = stack.enter_context(self._home.holding(name, self._catalogue))
        self._open[name] = (stack, holding)
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)[1][0].close()
        return holding

    def ledger(self, name: str) -> Ledger:
        sectors = self.subject(name).key.sectors
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
        subject, ledger = self.subject(name), self.ledger(name)
        known = self._catalogue.registration(name)
        transaction = (
            None if known is None else leaf.Transaction(known.hash, known.block, known.gas)
        )
        number = holding_id(ledger.sender, subject.number)
        domain, key = ledger.domain, subject.key.public
        holding = leaf.Holding(domain.chain, domain.contract, number, key.id, subject.address)
        return leaf.Registration(now, holding, key.sectors, transaction)

    def nodes(self) -> dict[bytes, Callable[[], NodeClient]]:
        """Return a function per node address that makes a client of the node."""
        return {
            record.node: partial(self._home.client, record.url, record.node, record.ca)
            for record in self._catalogue.holdings()
        }

    def unscheduled(self) -> list[tuple[str, int, PublicKey]]:
        """Return every holding with files that is not audited yet: its name, blocks and key."""
        check_home(self._home.folder)  # it may be gone
        rows = []
        for record in self._catalogue.unscheduled():
            holding = self.subject(record.name)
            if blocks := holding.inventory.blocks:
                rows.append((record.name, blocks, holding.key.public))
        return rows
