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

# The first of the accounts that every such chain begins with, and that have all its money.
PAYER = Account.from_key((1).to_bytes(32, "big"))
TERMS = Terms(poll=0.01, gas=8_000_000)  # it has one miner, who is at work at once


class Chain:
    def __init__(self, tester: EthereumTester, ledger: EvmLedger) -> None:
        self._tester, self.ledger = tester, ledger

    def reach(self, seconds: int) -> None:
        """Have blocks from now on no earlier than that; by itself a chain stays with real time."""
        if seconds > int(self._tester.get_block_by_number("pending")["timestamp"]):
            self._tester.time_travel(seconds)


@contextmanager
def opened_chain(folder: Path, sectors: int) -> Iterator[Chain]:
    """Begin a chain and put the contract on it; what is sent is written down in the folder."""
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
