"""The local ledger is durable, shared and honest about what it is."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.ledger_env import Kept, local_world, names

from holdfast.errors import InputError, StorageError
from holdfast.ledger import local
from holdfast.ledger.interface import Answer
from holdfast.ledger.local import LocalLedger

ALICE = b"a" * 20
KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.ledger import record
from holdfast.ledger.local import LocalLedger
ledger = LocalLedger(Path(sys.argv[1]), b"a" * 20, lambda: 1.0, sectors=1)
ledger.anchor(b"1" * 32, 1)
record.encode = lambda events: os.kill(os.getpid(), signal.SIGKILL)
ledger.anchor(b"2" * 32, 2)
"""


def open_ledger(path: Path, sectors: int = 1) -> LocalLedger:
    return LocalLedger(path, ALICE, lambda: 1.0, sectors=sectors)


@pytest.mark.slow
def test_a_call_cut_short_by_kill_9_leaves_what_was_before_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    killed = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert killed.returncode == -signal.SIGKILL
    ledger = open_ledger(path)
    assert [receipt.block for receipt in ledger.receipts()] == [1]
    assert ledger.anchor(b"3" * 32, 3).block == 2


def test_what_was_open_is_open_after_a_restart(tmp_path: Path) -> None:
    world = local_world(tmp_path)
    kept = Kept(world)
    audit = kept.open()
    again = local_world(tmp_path)
    assert again.owner.domain == world.owner.domain
    assert again.owner.key(kept.id) == kept.store.key.public
    receipt = again.owner.submit(kept.id, audit.id, Answer(audit.proof))
    assert names(receipt) == ["Passed"]
    assert world.owner.receipts()[-1] == receipt


def test_it_says_that_it_is_no_chain() -> None:
    assert "not a chain" in (local.__doc__ or "")


def test_a_file_for_other_holdings_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    open_ledger(tmp_path / "ledger").close()
    with pytest.raises(InputError, match="for 1 sectors a block, not for 16"):
        open_ledger(tmp_path / "ledger", sectors=16)
    (tmp_path / "garbage").write_bytes(b"garbage" * 1000)
    with pytest.raises(StorageError, match="can't be used as a ledger"):
        open_ledger(tmp_path / "garbage")


def test_a_file_that_breaks_is_told_in_one_sentence(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger")
    ledger.anchor(b"1" * 32, 1)
    ledger._db.execute("DROP TABLE calls")
    ledger._db.execute("DROP TABLE holdings")
    for use in (ledger.receipts, lambda: ledger.key(1), lambda: ledger.anchor(b"2" * 32, 2)):
        with pytest.raises(StorageError, match="can't be used: no such table"):
            use()


@pytest.mark.slow
def test_it_needs_no_client_of_any_chain() -> None:
    code = (
        "import sys; sys.modules.update(web3=None, eth_account=None, vyper=None)\n"
        "import holdfast.ledger.local\n"
        "from holdfast.cli.reference import commands; list(commands())"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
