"""A client that is killed with its transaction on the way: run by the tests."""

import os
import signal
import sys

from tests.support.ledger_env import sender_of
from web3 import Web3

from holdfast.ledger.evm import EvmLedger
from holdfast.ledger.journal import Attempt
from holdfast.ledger.transactions import Node


def main(url: str, storage: str, contract: str, moment: str) -> None:
    sender = sender_of(Web3(Node(url)), storage)
    broadcast = sender._broadcast

    def killed(*_: object) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return False

    def broadcast_or_killed(attempt: Attempt) -> None:
        if moment != "before":
            broadcast(attempt)
        if moment != "mined":
            killed()

    sender._broadcast = broadcast_or_killed  # type: ignore[method-assign]
    sender.journal.seen = killed  # type: ignore[method-assign,assignment]
    EvmLedger(sender, bytes.fromhex(contract), sectors=1).anchor(b"r" * 32, 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
