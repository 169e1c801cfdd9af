"""A client that is killed with its transaction on the way: `python client.py URL FOLDER MOMENT`."""

import os
import signal
import sys
from pathlib import Path

from tests.ledger.world import sender_of
from web3 import Web3

from holdfast.ledger.evm import EvmLedger
from holdfast.ledger.journal import Attempt
from holdfast.ledger.transactions import Node


def main(url: str, folder: str, contract: str, moment: str) -> None:
    sender = sender_of(Web3(Node(url)), Path(folder))
    broadcast = sender._broadcast

    def killed(attempt: Attempt) -> None:
        if moment == "after":
            broadcast(attempt)
        os.kill(os.getpid(), signal.SIGKILL)

    sender._broadcast = killed  # type: ignore[method-assign]
    EvmLedger(sender, bytes.fromhex(contract), sectors=1).anchor(b"r" * 32, 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
