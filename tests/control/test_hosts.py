"""Two hosts with a home of their own each, one database, one chain: what they share and survive."""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from eth_account import Account
from tests.control.test_kills import names_opened
from tests.support import parts
from tests.support.ledger_env import account_of, anvil, sender_of
from tests.support.owner_env import PASSPHRASE, QUICK, RunningNode, new_node_key, node_process
from tests.support.processes import end_with_tests
from tests.support.small_node import SEGMENT_BYTES
from web3 import Web3

from holdfast.bench.postgres import Server
from holdfast.cli.serve import work
from holdfast.control.evidence.reader import DatabaseLog
from holdfast.control.evidence.signer import evidence_signer
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.leaf import Audit, Outcome, decode
from holdfast.evidence.verification import verify
from holdfast.ledger.evm import contract_at, deploy, history
from holdfast.ledger.interface import Passed
from holdfast.ledger.transactions import Node
from holdfast.owner import Home, Original, add_holding, put
from holdfast.owner.ledgers import KEYSTORE_VARIABLE
from holdfast.pdp import Location
from holdfast.storage.database import connect

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
        with closing(psycopg.connect(self.database)) as connection:
            return connection.execute(text.encode()).fetchall()

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


def all_above(place: Site, numbers: dict[int, int]) -> bool:
    """Return whether the schedule has more audits of every holding than these."""
    now = dict(place.query("SELECT id, number FROM holdings"))
    return all(now[id_] > number for id_, number in numbers.items())


def wait_until(what: str, happened: Callable[[], bool]) -> None:
    for _ in range(900):
        if happened():
            return
        time.sleep(0.1)
    raise AssertionError(f"{what} did not happen")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hosts_share_the_work_and_one_goes_on_when_the_other_is_killed(place: Site) -> None:
    for name in ("alpha", "beta", "gamma"):
        place.put(place.first, name)
    with place.serving(place.second) as second:
        with place.serving(place.first) as first:
            wait_until("work of both", lambda: min(first.audited(), second.audited()) >= 3)
        numbers = dict(place.query("SELECT id, number FROM holdings"))
        place.put(place.first, "late")
        late = "SELECT 1 FROM holdings WHERE name = 'late' AND number > 0"
        wait_until("an audit of the file put meanwhile", lambda: bool(place.query(late)))
        wait_until("more audits of the others", lambda: all_above(place, numbers))
        assert second.audited() >= 3
    assert "Traceback" not in first.said.read_text() + second.said.read_text()
    assert not list(place.second.folder.glob("*.db*"))
    check_evidence(place)
    check_chain(place)


def check_evidence(place: Site) -> None:
    bundle = place.first.folder / "bundle"
    engine = connect(place.database)
    log = DatabaseLog(engine, evidence_signer(place.first.keyring).verifier)
    write_bundle(log, bundle)
    report = verify(Bundle.open(bundle), log.verifier)
    assert report.findings == ()
    assert report.anchors >= 1
    leaves = [decode(entry.leaf) for entry in log.entries()]
    engine.dispose()
    told = [each for each in leaves if isinstance(each, Audit)]
    assert {each.outcome for each in told} == {Outcome.PASSED}
    assert len({(each.holding.id, each.number) for each in told}) == len(told)


def check_chain(place: Site) -> None:
    """Each nonce has one intent, each intent one transaction, each challenge one verdict."""
    web3 = Web3(Node(place.chain))
    intents = place.query("SELECT nonce, data FROM holdfast_transactions.intents ORDER BY nonce")
    sent = web3.eth.get_transaction_count(account_of(PAYER).address)
    assert [nonce for nonce, _ in intents][:sent] == list(range(sent))
    assert len(intents) - sent <= 1, "the last host was killed, too"
    assert len({data for _, data in intents}) == len(intents)
    contract = contract_at(web3, place.contract, SECTORS)
    events = [event for receipt in history(contract, 0, 1) for event in receipt.events]
    opened = [name for event in events for name in names_opened(event)]
    passed = [event.challenge for event in events if isinstance(event, Passed)]
    assert len(set(opened)) == len(opened)
    assert len(set(passed)) == len(passed)
