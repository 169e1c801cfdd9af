"""A home whose settings name a chain: the same audits, before a contract."""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from eth_account import Account
from tests.support.database import run_sql
from tests.support.ledger_env import account_of, anvil, sender_of
from tests.support.owner_env import PASSPHRASE, World, flip, killed_at, lines_of
from tests.support.processes import process_tree, running
from tests.support.single_audit import run_audit
from tests.support.small_node import SAMPLE_CAP
from web3 import Web3

import holdfast
from holdfast import secret_variables
from holdfast.control.audit_now import audit_holdings
from holdfast.control.audits.types import AuditResult
from holdfast.errors import InputError
from holdfast.evidence.leaf import Outcome
from holdfast.ledger.evm import deploy
from holdfast.ledger.interface import Opened, Passed
from holdfast.ledger.transactions import Node
from holdfast.owner.ledgers import KEYSTORE_VARIABLE
from holdfast.owner.settings import read_settings

SECTORS = 4
CONTENT = random.Random(1).randbytes(10_000)
MOMENTS = 12


@pytest.fixture
def chained(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Yield a world whose home has its ledger on a chain, with a file in the holding `chained`."""
    with anvil() as url:
        account = account_of(1)
        contract = deploy(sender_of(Web3(Node(url)), tmp_path), SECTORS)
        sealed = Account.encrypt(account.key, "correct horse", kdf="pbkdf2", iterations=1000)
        folder = world.home.folder
        (folder / "account.json").write_text(json.dumps(sealed))
        (folder / "holdfast.toml").write_text(
            f'[ledger]\nkind = "evm"\nurl = "{url}"\ncontract = "0x{contract.hex()}"\n'
            'keystore = "account.json"\n'
        )
        monkeypatch.setenv(KEYSTORE_VARIABLE, "correct horse")
        home = replace(world.home, settings=read_settings(folder))
        chained = replace(world, home=home)
        chained.add("chained", world.one, encrypted=True, sectors=SECTORS)
        chained.put("chained", world.file(CONTENT))
        yield chained


@pytest.mark.slow
def test_a_contract_passes_and_fails_a_node(chained: World) -> None:
    with chained.home.holding("chained") as place, chained.home.ledger(SECTORS) as ledger:
        assert run_audit(ledger, place, 50, deadline_seconds=60).outcome is Outcome.PASSED
        for segment in chained.one.stored(place, "data"):
            flip(segment, *range(0, segment.stat().st_size, 31))
        blocks = min(place.inventory.blocks, SAMPLE_CAP)
        assert run_audit(ledger, place, blocks, deadline_seconds=60).outcome is Outcome.FAILED


@pytest.mark.slow(seconds=10)
def test_an_audit_killed_between_intent_and_receipt_has_one_verdict(chained: World) -> None:
    def audit() -> list[AuditResult]:
        return audit_holdings(chained.home, ["chained"], lambda _: 20, deadline_seconds=600)

    audit()  # which schedules the holding
    source = Path(holdfast.__file__).parent
    lines = lines_of(source, audit)
    for moment in range(1, MOMENTS):
        killed_at(lines * moment // MOMENTS, source, audit)
        run_sql(chained.home.address, "UPDATE holdings SET lease = 0")  # it ends in two minutes
        (result,) = audit()
        assert result.outcome is Outcome.PASSED
    with chained.home.ledger(SECTORS) as ledger:
        events = [event for receipt in ledger.receipts() for event in receipt.events]
    opened = sorted(event.challenge for event in events if isinstance(event, Opened))
    passed = sorted(event.challenge for event in events if isinstance(event, Passed))
    assert opened == passed
    assert len(set(opened)) == len(opened)
    assert passed_audits(chained.home.folder) == len(passed), "the evidence has each of them"


@pytest.mark.slow
def test_an_audit_that_the_owner_asks_for_does_not_wait_for_cheaper_gas(chained: World) -> None:
    with (chained.home.folder / "holdfast.toml").open("a") as settings:
        settings.write("[control.rails]\ngas_price_cap = 1\n")
    (result,) = audit_holdings(chained.home, [], lambda _: 20, deadline_seconds=60)
    assert result.outcome is Outcome.PASSED


def test_a_chain_without_a_passphrase_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEYSTORE_VARIABLE, raising=False)
    text = 'kind = "evm"\nurl = "http://127.0.0.1:1"\nkeystore = "account.json"\n'
    folder = world.home.folder
    (folder / "holdfast.toml").write_text(f'[ledger]\n{text}contract = "{"ab" * 20}"\n')
    home = replace(world.home, settings=read_settings(folder))
    with (
        pytest.raises(InputError, match=f"set {KEYSTORE_VARIABLE}"),
        home.ledger(SECTORS),
    ):
        pass


SERVED = """
[control]
scenario = "paper"
[control.rails]
unit = "1 second"
longest = 3
[control.patience]
deadline = "2 seconds"
first_pause = "1 second"
[control.web]
listen = "127.0.0.1:0"
"""


@pytest.mark.slow(seconds=10)
def test_workers_are_handed_the_passphrase_of_the_keystore_by_a_pipe(chained: World) -> None:
    folder = chained.home.folder
    with (folder / "holdfast.toml").open("a") as settings:
        settings.write(SERVED)
    script = Path(sys.executable).with_name("holdfast")
    environment = os.environ | {secret_variables.PASSPHRASE: PASSPHRASE.decode()}
    command = [str(script), "serve", "--home", str(folder)]
    with running(command, env=environment, stderr=subprocess.DEVNULL) as service:
        for _ in range(600):
            if passed_audits(folder):
                break
            time.sleep(0.1)
        else:
            raise AssertionError("no audit has passed")
        for process in process_tree(service.pid):
            shown = Path(f"/proc/{process}/environ").read_bytes()
            assert b"correct horse" not in shown
            assert PASSPHRASE not in shown


def passed_audits(folder: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{folder}/holdfast.db?mode=ro", uri=True)) as database:
            query = "SELECT count(*) FROM audits WHERE outcome = 'passed'"
            return int(database.execute(query).fetchone()[0])
    except sqlite3.OperationalError:  # before it is there
        return 0
