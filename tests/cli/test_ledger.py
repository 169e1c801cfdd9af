"""`holdfast ledger` deploys the contract on a real chain and shows what ledgers tell."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from tests.support.ledger_env import Kept, World, account_of, anvil, local_world, request, sender_of

from holdfast.cli.app import run
from holdfast.ledger import artefact
from holdfast.ledger.evm import EvmLedger
from holdfast.ledger.interface import Answer
from holdfast.ledger.transactions import Sender, connect
from holdfast.owner.ledgers import KEYSTORE_VARIABLE

PASSPHRASE = "correct horse"


@pytest.fixture(scope="module")
def chain() -> Iterator[str]:
    with anvil() as url:
        yield url


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a directory with the keystore of a funded account and its passphrase."""
    sealed = Account.encrypt(account_of(1).key, PASSPHRASE, kdf="pbkdf2", iterations=1000)
    (tmp_path / "payer.json").write_text(json.dumps(sealed))
    (tmp_path / "passphrase").write_text(PASSPHRASE + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(KEYSTORE_VARIABLE, raising=False)
    return tmp_path


def deployed(capsys: pytest.CaptureFixture[str], url: str, *options: str) -> Any:
    line = ["ledger", "deploy", "--chain", url, "--keystore", "payer.json", "--json"]
    assert run([*line, "--passphrase-file", "passphrase", *options]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    assert run(["ledger", *line]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert PASSPHRASE not in said.err
    return said.err


@pytest.mark.slow
def test_an_account_is_made_once_funded_and_pays(
    chain: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["ledger", "keygen", "--out", "new.json", "--passphrase-file", "passphrase", "--json"]
    assert run(line) == 0
    made = json.loads(capsys.readouterr().out)
    sealed = (place / "new.json").read_bytes()
    assert "exists" in refused(capsys, *line[1:])
    assert (place / "new.json").read_bytes() == sealed
    assert stat.S_IMODE((place / "new.json").stat().st_mode) == 0o600
    request(connect(chain), "anvil_setBalance", made["address"], hex(10**20))
    (place / "new.json").replace("payer.json")
    assert deployed(capsys, chain)["contract"].startswith("0x")


def audited(world: World, sectors: int) -> None:
    kept = Kept(world, sectors)
    audit = kept.open()
    world.owner.submit(kept.id, audit.id, Answer(audit.proof))


@pytest.mark.slow
def test_a_deployed_contract_audits_and_its_events_are_shown(
    chain: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = deployed(capsys, chain, "--sectors", "4")
    assert facts["sectors"] == 4
    sender = sender_of(connect(chain), place)
    ledger = EvmLedger(sender, bytes.fromhex(facts["contract"][2:]), sectors=4)
    now = sender.web3.eth.get_block("latest")["timestamp"]
    audited(World(ledger, ledger, lambda: now + 1, lambda _: None), 4)

    where = ["show", "--chain", chain, "--contract", facts["contract"]]
    assert run(["ledger", *where, "--since", str(facts["since"]), "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [event["event"] for event in events] == ["Registered", "Opened", "Passed"]
    assert {event["owner"] for event in events} == {ledger.sender.hex()}
    assert events[1]["challenge"] == events[2]["challenge"]

    assert run(["ledger", *where, "--since", str(events[2]["block"])]) == 0
    shown = capsys.readouterr().out
    assert "Passed" in shown
    assert "Opened" not in shown


def test_the_passphrase_may_come_from_the_environment(
    chain: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(os.environ, KEYSTORE_VARIABLE, PASSPHRASE)
    assert run(["ledger", "deploy", "--chain", chain, "--keystore", str(place / "payer.json")]) == 0
    assert "for 16 sectors per block" in capsys.readouterr().out


def test_a_deployment_cut_short_is_taken_up_and_not_done_twice(
    chain: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    web3 = connect(chain)
    before = web3.eth.get_transaction_count(account_of(1).address)
    with monkeypatch.context() as patch:
        patch.setattr(Sender, "_broadcast", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        line = ["ledger", "deploy", "--chain", chain, "--keystore", "payer.json", "--sectors", "1"]
        assert run([*line, "--passphrase-file", "passphrase"]) == 130
    capsys.readouterr()
    assert (place / "payer.json.transactions").exists()
    facts = deployed(capsys, chain, "--sectors", "1")
    assert web3.eth.get_transaction_count(account_of(1).address) == before + 1
    assert web3.eth.get_code(facts["contract"])


def test_a_local_ledger_is_shown_too_and_only_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audited(local_world(tmp_path), 1)
    path = tmp_path / "ledger"
    assert run(["ledger", "show", "--file", str(path), "--since", "2", "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [(event["block"], event["event"]) for event in events] == [(2, "Opened"), (3, "Passed")]
    assert "no ledger at" in refused(capsys, "show", "--file", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()
    (tmp_path / "garbage").write_bytes(b"garbage" * 999)
    assert "can't be read" in refused(capsys, "show", "--file", str(tmp_path / "garbage"))


def test_what_cannot_be_deployed_is_refused_in_one_sentence(
    chain: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "empty.json").write_text("{}")
    (place / "wrong").write_text("wrong horse")
    poor = Account.encrypt(account_of(77).key, PASSPHRASE, kdf="pbkdf2", iterations=1000)
    (place / "poor.json").write_text(json.dumps(poor))
    secret = ["--passphrase-file", "passphrase"]
    for line, told in (
        (["--chain", "gopher://chain", "--keystore", "payer.json", *secret], "http"),
        (["--chain", "http://127.0.0.1:9", "--keystore", "payer.json", *secret], "reached"),
        (["--chain", chain, "--keystore", "none.json", *secret], "none.json"),
        (["--chain", chain, "--keystore", "empty.json", *secret], "version 3"),
        (
            ["--chain", chain, "--keystore", "payer.json", "--passphrase-file", "wrong"],
            "passphrase",
        ),
        (["--chain", chain, "--keystore", "payer.json"], "no passphrase"),
        (["--chain", chain, "--keystore", "payer.json", "--sectors", "3", *secret], "3 sectors"),
        (["--chain", chain, "--keystore", "poor.json", *secret], "did not take"),
    ):
        assert told in refused(capsys, "deploy", *line)


def test_what_is_no_ledger_of_ours_is_not_shown(
    chain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger, torn = "0x" + "11" * 20, "0x" + "33" * 20
    request(connect(chain), "anvil_setCode", stranger, "0x6001")
    piece = artefact.load(1).bytecode[-2000:]
    request(connect(chain), "anvil_setCode", torn, f"0x{piece}")
    for line, told in (
        (["--chain", chain, "--contract", stranger], "no audit contract"),
        (["--chain", chain, "--contract", torn], "no audit contract"),
        (["--chain", chain, "--contract", "0x" + "22" * 20], "no audit contract"),
        (["--chain", chain, "--contract", "0x12"], "20 bytes"),
        (["--chain", chain, "--contract", "zz"], "hexadecimal"),
        (["--chain", chain], "--contract"),
        (["--chain", chain, "--contract", stranger, "--file", "ledger"], "--file"),
        ([], "--file"),
    ):
        assert told in refused(capsys, "show", *line)
