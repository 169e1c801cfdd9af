"""Read-only access to ledgers, without an account or a key."""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import InputError
from holdfast.ledger import local_reader
from holdfast.ledger.interface import Domain, Receipt
from holdfast.pdp import PublicKey

if TYPE_CHECKING:
    from web3 import Web3

CONFIRMATIONS = 1


class LedgerReader(Protocol):
    """What can be read from a ledger. Times are seconds since 1970."""

    @property
    def domain(self) -> Domain: ...

    def receipts(self, since: int = 0) -> list[Receipt]:
        """Return the events from that block on, by transaction."""

    def key(self, holding: int) -> PublicKey:
        """Return the key of a registered holding."""

    def time(self, block: int) -> int:
        """Return the time of a block."""


class FileReader:
    """A local ledger, read from its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.domain = local_reader.domain_of(path)

    def receipts(self, since: int = 0) -> list[Receipt]:
        return local_reader.history(self._path, since)

    def key(self, holding: int) -> PublicKey:
        return local_reader.registered_key(self._path, holding)

    def time(self, block: int) -> int:
        return local_reader.time_of(self._path, block)


class ChainReader:
    """The audit contract on a chain, read through any node of that chain."""

    def __init__(self, web3: "Web3", contract: bytes) -> None:
        from holdfast.ledger import evm  # noqa: PLC0415 - an extra

        self._web3, self._sectors = web3, evm.recognise(web3, contract)
        self._contract = evm.contract_at(web3, contract, self._sectors)
        self.domain = Domain(web3.eth.chain_id, contract)

    @classmethod
    def connect(cls, url: str, contract: bytes) -> "ChainReader":
        try:
            from holdfast.ledger.transactions import connect  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise InputError("a chain needs more libraries: pip install 'holdfast[evm]'") from error
        return cls(connect(url), contract)

    def receipts(self, since: int = 0) -> list[Receipt]:
        from holdfast.ledger.evm import history  # noqa: PLC0415 - as above

        return history(self._contract, since, CONFIRMATIONS)

    def key(self, holding: int) -> PublicKey:
        from holdfast.ledger.evm import registered_key  # noqa: PLC0415 - as above

        return registered_key(self._contract, self._sectors, holding)

    def time(self, block: int) -> int:
        return int(self._web3.eth.get_block(block)["timestamp"])
