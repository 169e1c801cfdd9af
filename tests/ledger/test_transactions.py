"""Transactions arrive once, whatever happens between the intent and the receipt."""

import json
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from eth_account import Account
from eth_tester import EthereumTester, PyEVMBackend
from tests.support.database import run_sql
from tests.support.ledger_env import TERMS, account_of, request, sender_of
from web3 import EthereumTesterProvider, Web3
from web3.types import RPCEndpoint, RPCResponse

from holdfast.errors import InputError, LedgerError, PassphraseError, StorageError
from holdfast.ledger import artefact, evm
from holdfast.ledger.build import compile_contract
from holdfast.ledger.evm import EvmLedger, deploy, recognise
from holdfast.ledger.interface import Anchored, Event
from holdfast.ledger.transactions import GWEI, Node, Terms, connect, read_account

ROOT = b"r" * 32


def anchored(ledger: EvmLedger) -> list[Event]:
    return [event for receipt in ledger.receipts() for event in receipt.events]


def killed_client(chain: str, storage: str, contract: bytes, moment: str) -> None:
    killed = subprocess.run(
        [sys.executable, "-m", "tests.ledger.client", chain, storage, contract.hex(), moment],
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after", "mined"])
def test_a_client_killed_around_its_broadcast_loses_and_doubles_nothing(
    moment: str, chain: str, storage: str
) -> None:
    sender = sender_of(Web3(Node(chain)), storage)
    contract = deploy(sender, 1)
    killed_client(chain, storage, contract, moment)
    ledger = EvmLedger(sender, contract, sectors=1)
    assert len(anchored(ledger)) == (moment != "before")
    (receipt,) = ledger.reconcile()
    assert receipt.events == (Anchored(ledger.sender, ROOT, 1),)
    assert ledger.reconcile() == []
    assert anchored(ledger) == [Anchored(ledger.sender, ROOT, 1)]
    ledger.anchor(ROOT, 2)
    assert len(anchored(ledger)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_call_made_again_after_a_kill_happens_once(moment: str, chain: str, storage: str) -> None:
    sender = sender_of(Web3(Node(chain)), storage)
    contract = deploy(sender, 1)
    killed_client(chain, storage, contract, moment)
    ledger = EvmLedger(sender, contract, sectors=1)
    assert ledger.anchor(ROOT, 1).events == (Anchored(ledger.sender, ROOT, 1),)
    assert ledger.reconcile() == []
    assert len(anchored(ledger)) == 1


@pytest.mark.slow
def test_a_stuck_transaction_is_replaced_at_a_higher_fee_up_to_the_cap(
    chain: str, storage: str
) -> None:
    web3 = Web3(Node(chain))
    contract = deploy(sender_of(web3, storage), 1)
    first = web3.eth.get_block("latest")["baseFeePerGas"] * 2 + Terms().tip
    terms = Terms(fee_cap=first * 5 // 4, patience=2, gas=TERMS.gas)
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 12:
            request(web3, "evm_mine")

    sender = sender_of(web3, storage, terms=terms, pause=pause)
    request(web3, "evm_setAutomine", False)
    ledger = EvmLedger(sender, contract, sectors=1)
    receipt = ledger.anchor(ROOT, 1)
    paid = run_sql(storage, "SELECT fee, tip FROM transaction_attempts ORDER BY nonce, fee")[1:]
    assert len(paid) == 3, "the first, an eighth more, and then the cap"
    for before, after in pairwise(paid):
        assert all(10 * more >= 11 * less for less, more in zip(before, after, strict=True))
    assert paid[-1][0] == terms.fee_cap
    assert web3.eth.get_transaction(receipt.transaction)["maxFeePerGas"] == terms.fee_cap  # type: ignore[arg-type]
    assert len(anchored(ledger)) == 1


@pytest.mark.slow
def test_what_someone_died_before_sending_holds_nobody_up(chain: str, storage: str) -> None:
    web3 = Web3(Node(chain))
    contract = deploy(sender_of(web3, storage), 1)
    sender = sender_of(web3, storage, terms=Terms(patience=2, give_up=10, gas=TERMS.gas))
    ledger = EvmLedger(sender, contract, sectors=1)
    pauses: list[float] = []
    sender._pause = pauses.append
    call = ledger._contract.encode_abi("anchor", [ROOT, 1])
    sender.journal.intend(  # as whoever is killed before its broadcast
        contract,
        bytes.fromhex(call[2:]),
        200_000,
        web3.eth.get_transaction_count(sender.account.address),
        lambda intent: sender._sign(intent, sender._market_fee(), Terms().tip),
    )
    ledger.anchor(ROOT, 2)
    assert len(pauses) <= 3
    assert anchored(ledger) == [Anchored(ledger.sender, ROOT, size) for size in (1, 2)]


@pytest.mark.slow
def test_a_transaction_that_a_reorganisation_drops_is_noticed_and_sent_again(
    storage: str,
) -> None:
    tester = EthereumTester(PyEVMBackend())
    web3 = Web3(EthereumTesterProvider(tester))
    contract = deploy(sender_of(web3, storage), 1)
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
    sender = sender_of(web3, storage, terms=terms, pause=pause)
    ledger = EvmLedger(sender, contract, sectors=1)
    receipt = ledger.anchor(ROOT, 1)
    assert sender.journal.reorganisations() == 1
    assert anchored(ledger) == list(receipt.events)
    assert web3.eth.block_number - receipt.block + 1 == 3
    assert sender.journal.pending() == []


@pytest.mark.slow
def test_what_a_reorganisation_undoes_after_it_was_final_is_taken_up_again(
    storage: str,
) -> None:
    tester = EthereumTester(PyEVMBackend())
    web3 = Web3(EthereumTesterProvider(tester))
    sender = sender_of(web3, storage)
    ledger = EvmLedger(sender, deploy(sender, 1), sectors=1)
    before = tester.take_snapshot()
    ledger.anchor(ROOT, 1)
    ledger.anchor(ROOT, 2)
    tester.revert_to_snapshot(before)
    assert anchored(ledger) == []
    assert len(ledger.reconcile()) == 2
    assert anchored(ledger) == [Anchored(ledger.sender, ROOT, size) for size in (1, 2)]


@pytest.mark.slow
def test_a_nonce_that_something_else_took_is_told(storage: str) -> None:
    web3 = Web3(EthereumTesterProvider(EthereumTester(PyEVMBackend())))
    sender = sender_of(web3, storage)
    contract = deploy(sender, 1)
    nonce = web3.eth.get_transaction_count(sender.account.address)
    sender.journal.intend(
        contract, b"", 100_000, nonce, lambda intent: sender._sign(intent, sender._market_fee(), 1)
    )
    web3.eth.send_transaction({"from": sender.account.address, "to": sender.account.address})
    ledger = EvmLedger(sender, contract, sectors=1)
    anchor = bytes.fromhex(ledger._contract.encode_abi("anchor", [ROOT, 1])[2:])
    sender.journal.intend(
        contract, anchor, 100_000, nonce + 1, lambda intent: sender._sign(intent, 10 * GWEI, 1)
    )
    with pytest.raises(LedgerError, match=f"took the nonce {nonce}: does something else send"):
        sender.reconcile()
    assert anchored(ledger) == [Anchored(ledger.sender, ROOT, 1)], "the rest is concluded"
    assert sender.reconcile() == []


class Slow(Node):
    """A node that counts transactions at once, and finds their receipts later."""

    lag = 0  # questions, before a receipt is found

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        if method == "eth_getTransactionReceipt" and self.lag:
            self.lag -= 1
            return {"jsonrpc": "2.0", "id": 1, "result": None}
        return super().make_request(method, params)


@pytest.mark.slow
def test_a_receipt_that_comes_after_its_transaction_was_counted_is_waited_for(
    chain: str, storage: str
) -> None:
    node = Slow(chain)
    terms = Terms(patience=5, gas=TERMS.gas)
    sender = sender_of(Web3(node), storage, terms=terms, pause=lambda _seconds: None)
    ledger = EvmLedger(sender, deploy(sender, 1), sectors=1)
    node.lag = terms.patience
    assert ledger.anchor(ROOT, 1).events == (Anchored(ledger.sender, ROOT, 1),)
    assert node.lag == 0
    assert sender.journal.pending() == []
    assert anchored(ledger) == [Anchored(ledger.sender, ROOT, 1)]


@pytest.mark.slow
def test_a_transaction_that_the_node_refuses_gives_its_nonce_back(chain: str, storage: str) -> None:
    web3 = Web3(Node(chain))
    contract = deploy(sender_of(web3, storage), 1)
    poor = sender_of(web3, storage, number=99)
    ledger = EvmLedger(poor, contract, sectors=1)
    with pytest.raises(LedgerError, match="did not take"):
        ledger.anchor(ROOT, 1)
    assert poor.journal.pending() == []
    request(web3, "anvil_setBalance", poor.account.address, hex(10**20))
    assert ledger.anchor(ROOT, 1).events == (Anchored(ledger.sender, ROOT, 1),)


def test_a_node_that_cannot_be_reached_is_named_but_not_the_secret_in_its_address() -> None:
    with pytest.raises(LedgerError, match=r"at 127\.0\.0\.1:9 can't be reached") as error:
        _ = connect("http://user:word@127.0.0.1:9/v3/secret").eth.chain_id
    assert error.value.__cause__ is None
    assert "secret" not in str(error.value)
    assert "word" not in str(error.value)


class Garbage(BaseHTTPRequestHandler):
    """Answers whatever is asked with something that no chain says."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        content = b"[]" if self.path == "/json" else b"<html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base
        pass


@pytest.mark.slow
@pytest.mark.parametrize("path", ["json", "html"])
def test_what_answers_but_is_no_chain_is_told(path: str) -> None:
    with HTTPServer(("127.0.0.1", 0), Garbage) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(LedgerError, match="no node of a chain"):
                _ = connect(f"http://127.0.0.1:{server.server_port}/{path}").eth.chain_id
        finally:
            server.shutdown()


@pytest.mark.parametrize("url", ["", "ftp://chain", "http://", "chain", "file:///etc/passwd"])
def test_a_chain_is_named_by_an_address_of_http(url: str) -> None:
    with pytest.raises(InputError, match="http"):
        connect(url)


def test_a_chain_without_the_contract_is_refused(tmp_path: Path) -> None:
    web3 = Web3(EthereumTesterProvider(EthereumTester(PyEVMBackend())))
    with pytest.raises(InputError, match="no contract at"):
        EvmLedger(sender_of(web3, tmp_path), b"\x01" * 20, sectors=1)


@pytest.mark.slow
def test_only_the_contract_that_ships_is_recognised(tmp_path: Path) -> None:
    web3 = Web3(EthereumTesterProvider(EthereumTester(PyEVMBackend())))
    sender = sender_of(web3, tmp_path)
    for sectors in (1, 4):
        assert recognise(web3, deploy(sender, sectors)) == sectors
    slip = artefact.sources(1)
    slip["check.vy"] = slip["check.vy"].replace("sigma < Q and mu < Q", "mu < Q")
    for contract in (b"\x01" * 20, deploy(sender, 1, compile_contract(1, slip))):
        with pytest.raises(InputError, match="no audit contract of this version"):
            recognise(web3, contract)


@pytest.mark.slow
def test_events_are_asked_for_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web3 = Web3(EthereumTesterProvider(EthereumTester(PyEVMBackend())))
    sender = sender_of(web3, tmp_path)
    ledger = EvmLedger(sender, deploy(sender, 1), sectors=1)
    receipts = [ledger.anchor(ROOT, size) for size in range(5)]
    for portion in (1, 2, 3):
        monkeypatch.setattr(evm, "LOG_BLOCKS", portion)
        assert [seen.events for seen in ledger.receipts()] == [r.events for r in receipts]
        assert len(ledger.receipts(receipts[2].block)) == 3


@pytest.mark.slow
def test_a_journal_that_breaks_is_told_before_anything_is_sent(storage: str) -> None:
    web3 = Web3(EthereumTesterProvider(EthereumTester(PyEVMBackend())))
    sender = sender_of(web3, storage)
    ledger = EvmLedger(sender, deploy(sender, 1), sectors=1)
    run_sql(storage, "DROP TABLE transaction_attempts")
    with pytest.raises(StorageError, match="transaction_attempts"):
        ledger.anchor(ROOT, 1)
    assert anchored(ledger) == []


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
