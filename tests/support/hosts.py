"""Hosts that share a home in one PostgreSQL."""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from tests.support import parts
from tests.support.database import run_sql
from tests.support.ledger_env import account_of, anvil, sender_of
from tests.support.owner_env import PASSPHRASE, QUICK, RunningNode, new_node_key, node_process
from tests.support.processes import end_with_tests
from tests.support.small_node import SEGMENT_BYTES
from web3 import Web3

from holdfast.bench.postgres import Server
from holdfast.cli.worker import work
from holdfast.ledger.evm import deploy
from holdfast.ledger.transactions import Node
from holdfast.owner import Home, Original, add_holding, put
from holdfast.owner.ledgers import KEYSTORE_VARIABLE
from holdfast.pdp import Location

SECTORS = 4


PAYER = 2


# What a second host needs, and all of it.
COPIED = ("owner.key", "owner.pub", "holdfast.toml", "account.json")


SETTINGS = """
[home]
database = "{database}"
[ledger]
kind = "evm"
url = "{chain}"
contract = "0x{contract}"
keystore = "account.json"
[control]
policy = "fixed-high"
[control.rails]
unit = "1 second"
longest = 120
[control.patience]
deadline = "100 seconds"
first_pause = "1 second"
[control.pace]
batch = 1
lease = "5 seconds"
[control.upkeep]
enrol = "1 second"
anchor = "5 seconds"
"""


@dataclass(frozen=True)
class Host:
    """A worker of its own, as `holdfast serve` runs it, on a home of its own."""

    process: int
    said: Path

    def audited(self) -> int:
        """Return how many audits this host has brought to their end."""
        assert os.waitpid(self.process, os.WNOHANG) == (0, 0), self.said.read_text()
        return self.said.read_text().count('"audited"')


@dataclass(frozen=True)
class Site:
    """One owner with a home on each of two hosts."""

    first: Home
    second: Home
    node: RunningNode
    database: str
    chain: str
    contract: bytes

    def put(self, home: Home, holding: str) -> None:
        """Make a holding and put a file in it, from that host."""
        add_holding(home, holding, self.node.url, sectors=SECTORS, encrypted=False)
        path = home.folder.parent / holding
        path.write_bytes(random.Random(holding).randbytes(5000))
        with home.changing(holding) as place:
            put(place, "file", Original.of(Location(str(path)), SEGMENT_BYTES), processes=1)

    def query(self, text: str) -> list[Any]:
        return run_sql(self.first.address, text)

    @contextmanager
    def serving(self, home: Home) -> Iterator[Host]:
        said = home.folder / "log"
        said.touch()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with said.open("w") as sys.stderr:
                    work(home.folder, home.keyring.root)
                code = 0
            finally:
                os._exit(code)
        release = end_with_tests(process=child)
        try:
            yield Host(child, said)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            release()


@pytest.fixture
def place(tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv(KEYSTORE_VARIABLE, "horse")
    folders = tmp_path / "first", tmp_path / "second"
    owner = Home.create(folders[0], PASSPHRASE, QUICK).keyring.owner
    new_node_key(tmp_path / "node.key")
    with (
        anvil() as chain,
        parts.database(postgres, "hosts") as database,
        node_process(tmp_path / "node", tmp_path / "node.key", owner) as node,
    ):
        contract = deploy(sender_of(Web3(Node(chain)), tmp_path), SECTORS)
        sealed = Account.encrypt(account_of(PAYER).key, "horse", kdf="pbkdf2", iterations=1000)
        (folders[0] / "account.json").write_text(json.dumps(sealed))
        named = SETTINGS.format(database=database, chain=chain, contract=contract.hex())
        (folders[0] / "holdfast.toml").write_text(named)
        folders[1].mkdir()
        for name in COPIED:
            shutil.copy(folders[0] / name, folders[1])
        first, second = (Home.open(folder, PASSPHRASE) for folder in folders)
        yield Site(first, second, node, database, chain, contract)


def wait_until(what: str, happened: Callable[[], bool]) -> None:
    for _ in range(900):
        if happened():
            return
        time.sleep(0.1)
    raise AssertionError(f"{what} did not happen")
