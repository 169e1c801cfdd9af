"""An EVM in this process, with the audit contract on it: a chain that lasts as long as the demo."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eth_account import Account
from eth_tester import EthereumTester, PyEVMBackend
from web3 import EthereumTesterProvider, Web3

from holdfast.ledger.evm import EvmLedger, deploy
from holdfast.ledger.journal import Journal
from holdfast.ledger.transactions import Sender, Terms

# The first of the accounts that hold all of such a chain's money at its start.
PAYER = Account.from_key((1).to_bytes(32, "big"))
TERMS = Terms(poll=0.01, gas=8_000_000)  # its one miner works at once


class Chain:
    def __init__(self, tester: EthereumTester, ledger: EvmLedger) -> None:
        self._tester, self.ledger = tester, ledger

    def reach(self, seconds: int) -> None:
        """Have blocks from now on no earlier than that; by itself a chain stays with real time."""
        if seconds > int(self._tester.get_block_by_number("pending")["timestamp"]):
            self._tester.time_travel(seconds)


@contextmanager
def open_chain(folder: Path, sectors: int) -> Iterator[Chain]:
    """Start a chain and deploy the contract on it; the folder has the journal of transactions."""
    tester = EthereumTester(PyEVMBackend())
    web3 = Web3(EthereumTesterProvider(tester))
    address = bytes.fromhex(PAYER.address[2:])
    journal = Journal.in_file(folder / "transactions.db", web3.eth.chain_id, address)
    try:
        sender = Sender(web3, PAYER, journal, TERMS)
        contract = deploy(sender, sectors)
        yield Chain(tester, EvmLedger(sender, contract, sectors=sectors))
    finally:
        journal.close()
