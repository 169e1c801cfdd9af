"""Transactions arrive once, whatever happens between the intent and the receipt."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from eth_account import Account
from eth_tester import EthereumTester, PyEVMBackend
from tests.ledger.world import TERMS, account_of, request, sender_of
from web3 import EthereumTesterProvider, Web3

from holdfast.errors import InputError, LedgerError, PassphraseError
from holdfast.ledger.evm import EvmLedger, deploy
from holdfast.ledger.interface import Anchored, Event
from holdfast.ledger.transactions import Node, Terms, read_account

ROOT = b"r" * 32


def anchored(ledger: EvmLedger) -> list[Event]:
    return [event for receipt in ledger.receipts() for event in receipt.events]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_client_killed_around_its_broadcast_loses_and_doubles_nothing(
    moment: str, chain: str, tmp_path: Path
) -> None:
    sender = sender_of(Web3(Node(chain)), tmp_path)
    contract = deploy(sender, 1)
    script = Path(__file__).with_name("client.py")
    killed = subprocess.run(
        [sys.executable, "-m", "tests.ledger.client", chain, tmp_path, contract.hex(), moment],
        check=False,
        cwd=script.parents[2],
    )
    assert killed.returncode == -signal.SIGKILL
    ledger = EvmLedger(sender, contract, sectors=1)
    assert len(anchored(ledger)) == (moment == "after")
    (receipt,) = ledger.reconcile()
    assert receipt.events == (Anchored(ledger.sender, ROOT, 1),)
    assert ledger.reconcile() == []
    assert anchored(ledger) == [Anchored(ledger.sender, ROOT, 1)]
    ledger.anchor(ROOT, 2)
    assert len(anchored(ledger)) == 2


def test_a_stuck_transaction_is_replaced_at_a_higher_fee_up_to_the_cap(
    chain: str, tmp_path: Path
) -> None:
    web3 = Web3(Node(chain))
    contract = deploy(sender_of(web3, tmp_path), 1)
    first = web3.eth.get_block("latest")["baseFeePerGas"] * 2 + Terms().tip
    terms = Terms(fee_cap=first * 5 // 4, patience=2, gas=TERMS.gas)
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 12:
            request(web3, "evm_mine")

    sender = sender_of(web3, tmp_path, terms=terms, pause=pause)
    request(web3, "evm_setAutomine", False)
    ledger = EvmLedger(sender, contract, sectors=1)
    receipt = ledger.anchor(ROOT, 1)
    fees = [row[0] for row in sender.journal._db.execute("SELECT fee FROM attempts ORDER BY rowid")]
    offered = fees[1:]
    assert len(offered) == 3, "the first, an eighth more, and then the cap"
    assert offered == sorted(offered)
    assert offered[-1] == terms.fee_cap
    assert web3.eth.get_transaction(receipt.transaction)["maxFeePerGas"] == terms.fee_cap  # type: ignore[arg-type]
    assert len(anchored(ledger)) == 1


def test_a_transaction_that_a_reorganisation_drops_is_noticed_and_sent_again(
    tmp_path: Path,
) -> None:
    tester = EthereumTester(PyEVMBackend())
    web3 = Web3(EthereumTesterProvider(tester))
    contract = deploy(sender_of(web3, tmp_path), 1)
    before = tester.take_snapshot()
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            tester.revert_to_snapshot(before)
            tester.mine_block()
        else:
            tester.mine_block()

    terms = Terms(confirmations=3, gas=TERMS.gas)
    sender = sender_of(web3, tmp_path, terms=terms, pause=pause)
    ledger = EvmLedger(sender, contract, sectors=1)
    receipt = ledger.anchor(ROOT, 1)
    assert sender.journal.reorganisations() == 1
    assert anchored(ledger) == list(receipt.events)
    assert web3.eth.block_number - receipt.block + 1 == 3
    assert sender.journal.pending() == []


def test_a_nonce_that_something_else_took_is_told(tmp_path: Path) -> None:
    web3 = Web3(EthereumTesterProvider(EthereumTester(PyEVMBackend())))
    sender = sender_of(web3, tmp_path)
    contract = deploy(sender, 1)
    nonce = web3.eth.get_transaction_count(sender.account.address)
    sender.journal.intend(
        contract, b"", 100_000, nonce, lambda intent: sender._sign(intent, sender._market_fee())
    )
    web3.eth.send_transaction({"from": sender.account.address, "to": sender.account.address})
    with pytest.raises(LedgerError, match="does something else send"):
        sender.reconcile()
    assert sender.reconcile() == []


def test_a_transaction_that_the_node_refuses_gives_its_nonce_back(
    chain: str, tmp_path: Path
) -> None:
    web3 = Web3(Node(chain))
    contract = deploy(sender_of(web3, tmp_path), 1)
    poor = sender_of(web3, tmp_path, number=99)
    ledger = EvmLedger(poor, contract, sectors=1)
    with pytest.raises(LedgerError, match="did not take"):
        ledger.anchor(ROOT, 1)
    assert poor.journal.pending() == []
    request(web3, "anvil_setBalance", poor.account.address, hex(10**20))
    assert ledger.anchor(ROOT, 1).events == (Anchored(ledger.sender, ROOT, 1),)


def test_a_node_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(LedgerError, match=r"http://127\.0\.0\.1:9"):
        _ = Web3(Node("http://127.0.0.1:9")).eth.chain_id


def test_a_chain_without_the_contract_is_refused(tmp_path: Path) -> None:
    web3 = Web3(EthereumTesterProvider(EthereumTester(PyEVMBackend())))
    with pytest.raises(InputError, match="no contract at"):
        EvmLedger(sender_of(web3, tmp_path), b"\x01" * 20, sectors=1)


def test_keys_come_from_a_keystore_file_alone(tmp_path: Path) -> None:
    path, account = tmp_path / "keystore", account_of(1)
    sealed = Account.encrypt(account.key, "correct horse", kdf="pbkdf2", iterations=1000)
    path.write_text(json.dumps(sealed))
    assert read_account(path, b"correct horse").address == account.address
    with pytest.raises(PassphraseError, match="does not open"):
        read_account(path, b"wrong horse")
    for garbage in ("", "{}", "[]", '{"version": 3}', "no json"):
        path.write_text(garbage)
        with pytest.raises(InputError, match="keystore file of version 3"):
            read_account(path, b"correct horse")
