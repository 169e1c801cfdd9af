"""A home whose settings name a chain: the same audits, before a contract."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from eth_account import Account
from tests.ledger.world import account_of, anvil, sender_of
from tests.owner.small_node import SAMPLE_CAP
from tests.owner.world import World, flip, killed_at, lines_of
from web3 import Web3

import holdfast
from holdfast.errors import InputError
from holdfast.ledger.evm import deploy
from holdfast.ledger.interface import Opened, Passed
from holdfast.ledger.transactions import Node
from holdfast.owner import Outcome, resume, run_audit
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
        assert run_audit(ledger, place, 50, patience=60).outcome is Outcome.PASSED
        for segment in chained.one.stored(place, "data"):
            flip(segment, *range(0, segment.stat().st_size, 31))
        blocks = min(place.inventory.blocks, SAMPLE_CAP)
        assert run_audit(ledger, place, blocks, patience=60).outcome is Outcome.FAILED


@pytest.mark.slow
def test_an_audit_killed_between_intent_and_receipt_has_one_verdict(chained: World) -> None:
    def audit() -> None:
        with chained.home.holding("chained") as place, chained.home.ledger(SECTORS) as ledger:
            run_audit(ledger, place, 20, patience=600)

    source = Path(holdfast.__file__).parent
    lines = lines_of(source, audit)
    for moment in range(1, MOMENTS):
        killed_at(lines * moment // MOMENTS, source, audit)
        with chained.home.holding("chained") as place, chained.home.ledger(SECTORS) as ledger:
            assert all(found.outcome is Outcome.PASSED for found in resume(ledger, place))
            assert not place.catalogue.audits("chained")
    with chained.home.ledger(SECTORS) as ledger:
        events = [event for receipt in ledger.receipts() for event in receipt.events]
    opened = sorted(event.challenge for event in events if isinstance(event, Opened))
    passed = sorted(event.challenge for event in events if isinstance(event, Passed))
    assert opened == passed
    assert len(set(opened)) == len(opened)


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
